"""The official client, sync and async."""

import asyncio
import json

import openai
from pydantic import BaseModel

from checks import API_KEY, BASE_URL, EMPTY_KEY, MODEL, check, equal, go_on, raised

client = openai.OpenAI(base_url=BASE_URL, api_key=API_KEY)
completions = client.chat.completions


class City(BaseModel):
    name: str
    population: int


WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
CITY = {
    "type": "json_schema",
    "json_schema": {"name": "city", "schema": City.model_json_schema()},
}


def ask(text="Say hello."):
    return {"model": MODEL, "messages": [{"role": "user", "content": text}]}


def models():
    return [equal([model.id for model in client.models.list()], [MODEL])]


def model():
    return [equal(client.models.retrieve(MODEL).id, MODEL)]


def completion():
    answer = completions.create(**ask())
    return equal(answer.choices[0].message.content, "Hello from the provider."), answer.usage


def raw_response():
    raw = completions.with_raw_response.create(**ask())
    assert raw.headers["x-request-id"]
    answer = raw.parse()
    return equal(answer.choices[0].finish_reason, "stop"), answer.usage


def stream():
    words = []
    for chunk in completions.create(**ask("scenario:gate"), stream=True):
        assert chunk.usage is None
        for choice in chunk.choices:
            words.append(choice.delta.content or "")
        if len(words) == 3:
            go_on()
    return [equal("".join(words), "one two three four five six ")]


def stream_usage():
    usage = None
    for chunk in completions.create(**ask(), stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
    return "told", usage


def stream_helper():
    with completions.stream(**ask(), stream_options={"include_usage": True}) as events:
        pieces = [event.delta for event in events if event.type == "content.delta"]
        final = events.get_final_completion()
    equal("".join(pieces), "Hello from the provider.")
    return equal(final.choices[0].message.content, "Hello from the provider."), final.usage


def tool():
    messages = ask("What is the weather in Oslo?")["messages"]
    first = completions.create(model=MODEL, messages=messages, tools=[WEATHER])
    (call,) = first.choices[0].message.tool_calls
    equal(json.loads(call.function.arguments), {"city": "Oslo"})
    messages += [
        first.choices[0].message,
        {"role": "tool", "tool_call_id": call.id, "content": "sunny"},
    ]
    second = completions.create(model=MODEL, messages=messages, tools=[WEATHER])
    return equal(second.choices[0].message.content, "It is sunny in Oslo."), second.usage


def tool_streamed():
    with completions.stream(**ask("What is the weather in Oslo?"), tools=[WEATHER]) as events:
        final = events.get_final_completion()
    (call,) = final.choices[0].message.tool_calls
    equal(call.function.name, "weather")
    return [equal(json.loads(call.function.arguments), {"city": "Oslo"})]


def structured():
    answer = completions.parse(**ask("Describe a city."), response_format=City)
    return equal(answer.choices[0].message.parsed, City(name="Oslo", population=709_000)), answer.usage


def structured_streamed():
    with completions.stream(**ask("Describe a city."), response_format=City) as events:
        final = events.get_final_completion()
    return [equal(final.choices[0].message.parsed, City(name="Oslo", population=709_000))]


def structured_by_schema():
    answer = completions.create(**ask("Describe a city."), response_format=CITY)
    return equal(City.model_validate_json(answer.choices[0].message.content).name, "Oslo"), answer.usage


def refused(kind, status, code, call):
    error = raised(call)
    equal(type(error), kind)
    equal(error.status_code, status)
    return [equal(error.code, code)]


def with_key(key):
    return openai.OpenAI(base_url=BASE_URL, api_key=key).chat.completions


def abort():
    words = 0
    stream = completions.create(**ask("scenario:endless"), stream=True)
    for _ in stream:
        words += 1
        if words == 3:
            break
    stream.close()
    return [equal(words, 3)]


def timeout():
    impatient = client.with_options(timeout=0.5, max_retries=0).chat.completions
    error = raised(lambda: impatient.create(**ask("scenario:silent")))
    return [equal(type(error), openai.APITimeoutError)]


def cut():
    words = []

    def read():
        for chunk in completions.create(**ask("scenario:cut"), stream=True):
            words.append(chunk.choices[0].delta.content)

    error = raised(read)
    equal(words, ["cut ", "off ", "here "])
    assert isinstance(error, openai.APIError), error
    return [equal(error.code, "upstream_cut")]


def busy():
    answer = completions.create(**ask("scenario:busy"))
    return equal(answer.choices[0].message.content, "Hello from the provider."), answer.usage


def busy_stream():
    pieces = completions.create(**ask("scenario:busy"), stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in pieces)
    return [equal(text, "Hello from the provider.")]


def untold():
    return [equal(completions.create(**ask("scenario:untold")).usage, None)]


async def in_turn(run):
    async with openai.AsyncOpenAI(base_url=BASE_URL, api_key=API_KEY) as other:
        return await run(other.chat.completions)


async def async_completion(completions):
    answers = await asyncio.gather(*(completions.create(**ask()) for _ in range(8)))
    equal({answer.choices[0].message.content for answer in answers}, {"Hello from the provider."})
    return equal(len({answer.usage.prompt_tokens for answer in answers}), 8), answers[7].usage


async def async_stream(completions):
    words = []
    async for chunk in await completions.create(**ask("scenario:gate"), stream=True):
        for choice in chunk.choices:
            words.append(choice.delta.content or "")
        if len(words) == 3:
            await asyncio.to_thread(go_on)
    return [equal("".join(words), "one two three four five six ")]


async def async_tool_streamed(completions):
    async with completions.stream(**ask("Weather?"), tools=[WEATHER]) as events:
        final = await events.get_final_completion()
    (call,) = final.choices[0].message.tool_calls
    return [equal(json.loads(call.function.arguments), {"city": "Oslo"})]


async def async_structured(completions):
    answer = await completions.parse(**ask("Describe a city."), response_format=City)
    return equal(answer.choices[0].message.parsed.name, "Oslo"), answer.usage


async def async_cancelled(completions):
    begun = asyncio.Event()

    async def read():
        async for _ in await completions.create(**ask("scenario:endless"), stream=True):
            begun.set()

    reading = asyncio.create_task(read())
    await begun.wait()
    reading.cancel()
    (error,) = await asyncio.gather(reading, return_exceptions=True)
    return [equal(type(error), asyncio.CancelledError)]


for run in [
    models, model, completion, raw_response, stream, stream_usage, stream_helper, tool, tool_streamed,
    structured, structured_streamed, structured_by_schema, abort, timeout, cut, busy, busy_stream, untold,
]:
    check(run.__name__, run)
for run in [async_completion, async_stream, async_tool_streamed, async_structured, async_cancelled]:
    check(run.__name__, lambda run=run: asyncio.run(in_turn(run)))
for name, kind, status, code, call in [
    ("401", openai.AuthenticationError, 401, "invalid_api_key",
     lambda: with_key("sk-ccr-unknown").create(**ask())),
    ("402", openai.APIStatusError, 402, "insufficient_credits",
     lambda: with_key(EMPTY_KEY).create(**ask())),
    ("402_stream", openai.APIStatusError, 402, "insufficient_credits",
     lambda: with_key(EMPTY_KEY).create(**ask(), stream=True)),
    ("404", openai.NotFoundError, 404, "model_not_found",
     lambda: completions.create(**{**ask(), "model": "acme/unknown"})),
    ("400", openai.BadRequestError, 400, "context_length_exceeded",
     lambda: completions.create(**ask("scenario:too-long"))),
    ("500", openai.InternalServerError, 500, None,
     lambda: client.with_options(max_retries=0).chat.completions.create(**ask("scenario:broken"))),
]:
    check(name, lambda: refused(kind, status, code, call))
