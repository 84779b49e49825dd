"""LiteLLM as a client, by its prefixes `openai/` and `openrouter/`."""

import asyncio
import gc
import json

import litellm
from pydantic import BaseModel

from checks import API_KEY, BASE_URL, EMPTY_KEY, MODEL, check, equal, go_on, raised

HELLO = "Hello from the provider."
litellm.suppress_debug_info = True


class City(BaseModel):
    name: str
    population: int


WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


def terms(prefix, text="Say hello.", key=API_KEY, model=MODEL):
    return {
        "model": f"{prefix}/{model}",
        "api_base": BASE_URL,
        "api_key": key,
        "messages": [{"role": "user", "content": text}],
        "max_retries": 0,
    }


def completion(prefix):
    answer = litellm.completion(**terms(prefix))
    return equal(answer.choices[0].message.content, HELLO), answer.usage


def stream(prefix):
    words = []
    for chunk in litellm.completion(**terms(prefix, "scenario:gate"), stream=True):
        words += [choice.delta.content for choice in chunk.choices if choice.delta.content]
        if len(words) == 3:
            go_on()
    return [equal("".join(words), "one two three four five six ")]


def stream_usage(prefix):
    options = {"stream": True, "stream_options": {"include_usage": True}}
    usage = [getattr(chunk, "usage", None) for chunk in litellm.completion(**terms(prefix), **options)]
    (told,) = [each for each in usage if each]
    return "told", told


def tool(prefix):
    question = terms(prefix, "What is the weather in Oslo?")
    message = litellm.completion(**question, tools=[WEATHER]).choices[0].message
    (call,) = message.tool_calls
    equal(json.loads(call.function.arguments), {"city": "Oslo"})
    question["messages"] += [message, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    answer = litellm.completion(**question, tools=[WEATHER])
    return equal(answer.choices[0].message.content, "It is sunny in Oslo."), answer.usage


def tool_streamed(prefix):
    question = terms(prefix, "What is the weather in Oslo?")
    chunks = list(litellm.completion(**question, tools=[WEATHER], stream=True))
    (call,) = litellm.stream_chunk_builder(chunks).choices[0].message.tool_calls
    equal(call.function.name, "weather")
    return [equal(json.loads(call.function.arguments), {"city": "Oslo"})]


def structured(prefix):
    answer = litellm.completion(**terms(prefix, "Describe a city."), response_format=City)
    city = City.model_validate_json(answer.choices[0].message.content)
    return equal(city, City(name="Oslo", population=709_000)), answer.usage


def abort(prefix):
    async def read():
        stream = await litellm.acompletion(**terms(prefix, "scenario:endless"), stream=True)
        words = 0
        async for _ in stream:
            words += 1
            if words == 3:
                break
        await stream.aclose()
        return [equal(words, 3)]

    return asyncio.run(read())


def cancelled(prefix):
    async def ask():
        asking = asyncio.create_task(litellm.acompletion(**terms(prefix, "scenario:silent")))
        await asyncio.sleep(1)
        asking.cancel()
        (error,) = await asyncio.gather(asking, return_exceptions=True)
        return [equal(type(error), asyncio.CancelledError)]

    return asyncio.run(ask())


def cut(prefix):
    words = []

    def read():
        for chunk in litellm.completion(**terms(prefix, "scenario:cut"), stream=True):
            words.extend(choice.delta.content for choice in chunk.choices if choice.delta.content)

    error = raised(read)
    equal("".join(words), "cut off here ")
    return [type(error).__name__]


def busy(prefix):
    answer = litellm.completion(**terms(prefix, f"{prefix} scenario:busy"), num_retries=2)
    return equal(answer.choices[0].message.content, HELLO), answer.usage


def untold(prefix):
    answer = litellm.completion(**terms(prefix, "scenario:untold"))
    return [equal(answer.choices[0].message.content, HELLO)]


def parallel(prefix):
    async def ask():
        return await asyncio.gather(*(litellm.acompletion(**terms(prefix)) for _ in range(8)))

    answers = asyncio.run(ask())
    equal({answer.choices[0].message.content for answer in answers}, {HELLO})
    return equal(len({answer.usage.prompt_tokens for answer in answers}), 8), answers[0].usage


def refused(kinds, status, call):
    error = raised(call)
    assert type(error) in kinds, repr(error)
    return [equal(error.status_code, status)]


def refusals(prefix):
    def ask(**others):
        return lambda: litellm.completion(**terms(prefix, **others))

    unknown, other = {"key": "sk-ccr-unknown"}, {"model": "acme/unknown"}
    return [
        ("401", [litellm.AuthenticationError], 401, ask(**unknown)),
        ("402", [litellm.APIError], 402, ask(key=EMPTY_KEY)),
        ("404", [litellm.NotFoundError], 404, ask(**other)),
        ("400", [litellm.ContextWindowExceededError, litellm.BadRequestError], 400, ask(text="scenario:too-long")),
        ("500", [litellm.InternalServerError, litellm.APIError], 500, ask(text="scenario:broken")),
    ]


for prefix in ["openai", "openrouter"]:
    for run in [
        completion, stream, stream_usage, tool, tool_streamed, structured,
        abort, cancelled, cut, busy, untold, parallel,
    ]:
        check(f"{prefix}/ {run.__name__}", lambda: run(prefix))
        # LiteLLM leaves streams of `openrouter/` open at their end. Where Python happens to collect one while httpcore
        # holds the lock of its pool, httpcore 1.0.9 waits for that lock for ever.
        gc.collect()
    for name, *terms_of in refusals(prefix):
        check(f"{prefix}/ {name}", lambda: refused(*terms_of))
