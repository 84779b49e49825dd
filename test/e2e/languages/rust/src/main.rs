//! `async-openai`: prints a line of JSON for each check.

use std::{env, error::Error, future::Future, time::Duration};

use async_openai::{
    Client,
    config::OpenAIConfig,
    error::OpenAIError,
    types::chat::{
        ChatCompletionMessageToolCalls, CompletionUsage, CreateChatCompletionRequest,
        CreateChatCompletionStreamResponse,
    },
};
use futures::{StreamExt, future::join_all};
use serde_json::{Value, from_str, from_value, json};

type Failure = Box<dyn Error>;
/// What came, and the usage that was told with it.
type Checked = Result<(String, Option<CompletionUsage>), Failure>;

const HELLO: &str = "Hello from the provider.";

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

fn client_with(key: &str) -> Client<OpenAIConfig> {
    let config = OpenAIConfig::new()
        .with_api_base(variable("BASE_URL"))
        .with_api_key(key);
    Client::with_config(config)
}

fn client() -> Client<OpenAIConfig> {
    client_with(&variable("API_KEY"))
}

/// A request with further members.
fn ask(text: &str, members: Value) -> CreateChatCompletionRequest {
    let mut fields = json!({
        "model": variable("MODEL"),
        "messages": [{ "role": "user", "content": text }],
    });
    for (name, value) in members.as_object().expect("an object") {
        fields[name] = value.clone();
    }
    from_value(fields).expect("a request")
}

fn weather() -> Value {
    json!([{
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": { "type": "object", "properties": { "city": { "type": "string" } } },
        },
    }])
}

fn equal<T: PartialEq<U> + std::fmt::Debug, U: std::fmt::Debug>(got: T, expected: U) -> Result<(), Failure> {
    if got == expected {
        return Ok(());
    }
    Err(format!("got {got:?}, expected {expected:?}").into())
}

async fn check(name: &str, run: impl Future<Output = Checked>) {
    let line = match run.await {
        Ok((detail, usage)) => match usage {
            Some(told) => json!({ "check": name, "ok": true, "detail": detail,
                "usage": [told.prompt_tokens, told.completion_tokens] }),
            None => json!({ "check": name, "ok": true, "detail": detail }),
        },
        Err(error) => json!({ "check": name, "ok": false, "detail": error.to_string() }),
    };
    println!("{line}");
}

async fn go_on() -> Result<(), Failure> {
    reqwest::get(variable("CONTINUE_URL")).await?;
    Ok(())
}

async fn models() -> Checked {
    let ids: Vec<String> = client()
        .models()
        .list()
        .await?
        .data
        .into_iter()
        .map(|each| each.id)
        .collect();
    equal(ids, [variable("MODEL")])?;
    Ok((String::new(), None))
}

async fn model() -> Checked {
    let found = client().models().retrieve(&variable("MODEL")).await?;
    equal(found.id.as_str(), variable("MODEL"))?;
    Ok((found.id, None))
}

async fn content_is(request: CreateChatCompletionRequest, expected: &str) -> Checked {
    let answer = client().chat().create(request).await?;
    let text = answer.choices[0].message.content.clone().unwrap_or_default();
    equal(text.as_str(), expected)?;
    Ok((text, answer.usage))
}

/// The text of a stream, the arguments of its tool call, and its usage.
#[derive(Default)]
struct Streamed {
    words: Vec<String>,
    tool: String,
    arguments: String,
    usage: Option<CompletionUsage>,
}

impl Streamed {
    fn add(&mut self, chunk: CreateChatCompletionStreamResponse) {
        self.usage = chunk.usage.or(self.usage.take());
        for delta in chunk.choices.into_iter().map(|choice| choice.delta) {
            self.words.extend(delta.content.filter(|text| !text.is_empty()));
            for function in delta
                .tool_calls
                .into_iter()
                .flatten()
                .filter_map(|call| call.function)
            {
                self.tool += &function.name.unwrap_or_default();
                self.arguments += &function.arguments.unwrap_or_default();
            }
        }
    }
}

/// Reads a stream to its end; calls for the rest of it at its third word.
async fn streamed(
    request: CreateChatCompletionRequest,
    at_gate: bool,
) -> Result<Streamed, (Streamed, Failure)> {
    let mut all = Streamed::default();
    let mut stream = match client().chat().create_stream(request).await {
        Ok(stream) => stream,
        Err(error) => return Err((all, error.into())),
    };
    while let Some(chunk) = stream.next().await {
        match chunk {
            Ok(chunk) => all.add(chunk),
            Err(error) => return Err((all, error.into())),
        }
        if at_gate && all.words.len() == 3 {
            if let Err(error) = go_on().await {
                return Err((all, error));
            }
        }
    }
    Ok(all)
}

async fn stream() -> Checked {
    let all = streamed(ask("scenario:gate", json!({})), true)
        .await
        .map_err(|(_, error)| error)?;
    equal(all.words.concat().as_str(), "one two three four five six ")?;
    equal(all.usage.is_none(), true)?;
    Ok((String::new(), None))
}

async fn stream_usage() -> Checked {
    let request = ask(
        "Say hello.",
        json!({ "stream_options": { "include_usage": true } }),
    );
    let all = streamed(request, false).await.map_err(|(_, error)| error)?;
    equal(all.words.concat().as_str(), HELLO)?;
    equal(all.usage.is_some(), true)?;
    Ok((String::new(), all.usage))
}

async fn tool() -> Checked {
    let question = ask("What is the weather in Oslo?", json!({ "tools": weather() }));
    let message = client().chat().create(question).await?.choices.remove(0).message;
    let calls = message.tool_calls.unwrap_or_default();
    let Some(ChatCompletionMessageToolCalls::Function(call)) = calls.first() else {
        return Err("no call".into());
    };
    equal(
        from_str::<Value>(&call.function.arguments)?,
        json!({ "city": "Oslo" }),
    )?;
    let messages = json!([
        { "role": "user", "content": "What is the weather in Oslo?" },
        { "role": "assistant", "tool_calls": calls },
        { "role": "tool", "tool_call_id": call.id, "content": "sunny" },
    ]);
    let result = ask("", json!({ "messages": messages, "tools": weather() }));
    content_is(result, "It is sunny in Oslo.").await
}

async fn tool_streamed() -> Checked {
    let question = ask("What is the weather in Oslo?", json!({ "tools": weather() }));
    let all = streamed(question, false).await.map_err(|(_, error)| error)?;
    equal(all.tool.as_str(), "weather")?;
    equal(all.arguments.as_str(), r#"{"city":"Oslo"}"#)?;
    Ok((all.arguments, None))
}

async fn structured() -> Checked {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    let format = json!({ "type": "json_schema", "json_schema": { "name": "city", "schema": schema } });
    content_is(
        ask("Describe a city.", json!({ "response_format": format })),
        r#"{"name":"Oslo"}"#,
    )
    .await
}

async fn abort() -> Checked {
    let mut stream = client()
        .chat()
        .create_stream(ask("scenario:endless", json!({})))
        .await?;
    for _ in 0..3 {
        stream.next().await.ok_or("the stream has ended")??;
    }
    drop(stream);
    Ok((String::new(), None))
}

async fn cancel() -> Checked {
    let chat = client();
    let chat = chat.chat();
    let asking = chat.create(ask("scenario:silent", json!({})));
    let outcome = tokio::time::timeout(Duration::from_millis(500), asking).await;
    equal(outcome.is_err(), true)?;
    Ok((String::new(), None))
}

async fn cut() -> Checked {
    let Err((all, error)) = streamed(ask("scenario:cut", json!({})), false).await else {
        return Err("the stream looks whole".into());
    };
    equal(all.words.concat().as_str(), "cut off here ")?;
    equal(error.to_string().contains("upstream_cut"), true)?;
    Ok((error.to_string(), None))
}

async fn untold() -> Checked {
    let (text, usage) = content_is(ask("scenario:untold", json!({})), HELLO).await?;
    equal(usage.is_none(), true)?;
    Ok((text, None))
}

async fn parallel() -> Checked {
    let answers = join_all((0..8).map(|_| content_is(ask("Say hello.", json!({})), HELLO))).await;
    answers.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok((String::new(), None))
}

async fn refused(key: &str, request: CreateChatCompletionRequest, status: u16, code: &str) -> Checked {
    match client_with(key).chat().create(request).await {
        Err(OpenAIError::ApiError(refusal)) => {
            equal(refusal.status_code.as_u16(), status)?;
            equal(refusal.api_error.code.unwrap_or_default().as_str(), code)?;
            Ok((refusal.api_error.message, None))
        }
        other => Err(format!("no API error: {other:?}").into()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let (key, empty) = (variable("API_KEY"), variable("EMPTY_KEY"));
    let hello = || ask("Say hello.", json!({}));
    let elsewhere = ask("Say hello.", json!({ "model": "acme/unknown" }));
    let too_long = ask("scenario:too-long", json!({}));
    check("models", models()).await;
    check("model", model()).await;
    check("completion", content_is(hello(), HELLO)).await;
    check("stream", stream()).await;
    check("stream_usage", stream_usage()).await;
    check("tool", tool()).await;
    check("tool_streamed", tool_streamed()).await;
    check("structured", structured()).await;
    check("abort", abort()).await;
    check("cancel", cancel()).await;
    check("cut", cut()).await;
    check("busy", content_is(ask("scenario:busy", json!({})), HELLO)).await;
    check("untold", untold()).await;
    check("parallel", parallel()).await;
    check("401", refused("sk-ccr-unknown", hello(), 401, "invalid_api_key")).await;
    check("402", refused(&empty, hello(), 402, "insufficient_credits")).await;
    check("404", refused(&key, elsewhere, 404, "model_not_found")).await;
    check("400", refused(&key, too_long, 400, "context_length_exceeded")).await;
}
