"""OpenRouter's own client."""

import json

import httpx
from openrouter import OpenRouter
from openrouter.errors import OpenRouterError, ResponseValidationError

from checks import API_KEY, BASE_URL, EMPTY_KEY, MODEL, check, equal, go_on, raised

AUTHOR, SLUG = MODEL.split("/")
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
CITY = {
    "type": "json_schema",
    "json_schema": {
        "name": "city",
        "schema": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "population": {"type": "integer"}},
        },
    },
}

heads = []
http = httpx.Client(event_hooks={"response": [lambda response: heads.append(response.headers)]})


def with_key(key):
    return OpenRouter(server_url=BASE_URL, api_key=key, client=http)


client = with_key(API_KEY)


def ask(text="Say hello."):
    return {"model": MODEL, "messages": [{"role": "user", "content": text}]}


def models():
    page = client.models.list(limit=1)
    (listed,) = page.result.data
    equal(listed.id, MODEL)
    equal(listed.context_length, 8192)
    equal((listed.pricing.prompt, listed.pricing.completion), ("0.000001", "0.000003"))
    equal(listed.top_provider.max_completion_tokens, 1000)
    equal(listed.supported_parameters, [])
    second = page.next()
    return [equal(second.result.data if second else [], [])]


def model():
    return [equal(client.models.get(author=AUTHOR, slug=SLUG).data.id, MODEL)]


def credits():
    return [equal(client.credits.get_credits().data.total_credits, 5)]


def completion():
    answer = client.chat.send(**ask())
    return equal(answer.choices[0].message.content, "Hello from the provider."), answer.usage


def stream():
    words = []
    with client.chat.send(**ask("scenario:gate"), stream=True) as events:
        for event in events:
            for choice in event.choices:
                words.append(choice.delta.content or "")
            if len(words) == 3:
                go_on()
    return [equal("".join(words), "one two three four five six ")]


def stream_usage():
    usage = None
    asked = {**ask(), "stream_options": {"include_usage": True}}
    with client.chat.send(**asked, stream=True) as events:
        for event in events:
            usage = event.usage or usage
    return "told", usage


def tool():
    messages = ask("What is the weather in Oslo?")["messages"]
    first = client.chat.send(model=MODEL, messages=messages, tools=[WEATHER])
    message = first.choices[0].message
    (call,) = message.tool_calls
    equal(json.loads(call.function.arguments), {"city": "Oslo"})
    messages += [message, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    second = client.chat.send(model=MODEL, messages=messages, tools=[WEATHER])
    return equal(second.choices[0].message.content, "It is sunny in Oslo."), second.usage


def tool_streamed():
    name, arguments = "", ""
    with client.chat.send(**ask("The weather?"), tools=[WEATHER], stream=True) as events:
        for event in events:
            for call in event.choices[0].delta.tool_calls or []:
                name += call.function.name or ""
                arguments += call.function.arguments or ""
    equal(name, "weather")
    return [equal(json.loads(arguments), {"city": "Oslo"})]


def structured():
    answer = client.chat.send(**ask("Describe a city."), response_format=CITY)
    got = json.loads(answer.choices[0].message.content)
    return equal(got, {"name": "Oslo", "population": 709_000}), answer.usage


def generation():
    usage = client.chat.send(**ask()).usage
    data = client.generations.get_generation(id=heads[-1]["x-request-id"]).data
    equal((data.model, data.finish_reason, data.streamed, data.cancelled), (MODEL, "stop", False, False))
    equal((data.tokens_prompt, data.tokens_completion), (usage.prompt_tokens, usage.completion_tokens))
    # 10 of the tokens of the prompt were cached: 0.1 in place of 1 USD per million.
    cost = (usage.prompt_tokens - 9) * 1e-6 + usage.completion_tokens * 3e-6
    return equal(data.total_cost, round(cost, 9)), usage


def key():
    data = client.api_keys.get_current_key_metadata().data
    equal((data.limit, data.limit_remaining, data.is_management_key), (None, None, False))
    equal((data.budgets, data.effective_budget), ([], None))
    return equal(data.usage > 0 and data.usage == data.usage_daily, True),


def activity():
    day = client.analytics.get_user_activity().data[0]
    equal((day.model, day.model_permaslug), (MODEL, MODEL))
    return equal(day.requests > 0 and day.usage > 0, True),


def abort():
    words = 0
    with client.chat.send(**ask("scenario:endless"), stream=True) as events:
        for _ in events:
            words += 1
            if words == 3:
                break
    return [equal(words, 3)]


def refused(status, code, call):
    error = raised(call)
    assert isinstance(error, OpenRouterError), error
    equal(error.status_code, status)
    # Its own classes want a number where clients of OpenAI want ours.
    equal(type(error), ResponseValidationError)
    return [equal(json.loads(error.body)["error"]["code"], code)]


for run in [
    models, model, credits, completion, stream, stream_usage, tool, tool_streamed, structured, generation, key, activity, abort,
]:
    check(run.__name__, run)
for name, code, call in [
    ("401", "invalid_api_key", lambda: with_key("sk-ccr-unknown").chat.send(**ask())),
    ("402", "insufficient_credits", lambda: with_key(EMPTY_KEY).chat.send(**ask())),
    ("404", "model_not_found", lambda: client.chat.send(**{**ask(), "model": "acme/unknown"})),
    ("404_generation", "generation_not_found", lambda: client.generations.get_generation(id="none")),
]:
    check(name, lambda: refused(int(name[:3]), code, call))
