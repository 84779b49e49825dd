import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.openai.client.OpenAIClient;
import com.openai.client.okhttp.OpenAIOkHttpClient;
import com.openai.core.JsonValue;
import com.openai.core.RequestOptions;
import com.openai.core.http.StreamResponse;
import com.openai.errors.BadRequestException;
import com.openai.errors.InternalServerException;
import com.openai.errors.NotFoundException;
import com.openai.errors.OpenAIException;
import com.openai.errors.OpenAIServiceException;
import com.openai.errors.UnauthorizedException;
import com.openai.errors.UnexpectedStatusCodeException;
import com.openai.helpers.ChatCompletionAccumulator;
import com.openai.models.FunctionDefinition;
import com.openai.models.FunctionParameters;
import com.openai.models.chat.completions.ChatCompletion;
import com.openai.models.chat.completions.ChatCompletionChunk;
import com.openai.models.chat.completions.ChatCompletionCreateParams;
import com.openai.models.chat.completions.ChatCompletionStreamOptions;
import com.openai.models.chat.completions.ChatCompletionToolMessageParam;
import com.openai.models.completions.CompletionUsage;
import com.openai.models.models.Model;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.URI;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** The official client for Java: prints a line of JSON for each check. */
public class Client {
  static final String MODEL = System.getenv("MODEL");
  static final String HELLO = "Hello from the provider.";
  static final JsonMapper JSON = new JsonMapper();
  static final OpenAIClient CLIENT = clientWith(System.getenv("API_KEY"), 2);

  /** What structured output is read into. */
  public static class City {
    public String name;
    public int population;
  }

  interface Check {
    /** Gives the usage that was told, if any; throws where something is wrong. */
    CompletionUsage run() throws Exception;
  }

  static OpenAIClient clientWith(String key, int maxRetries) {
    return OpenAIOkHttpClient.builder()
        .baseUrl(System.getenv("BASE_URL"))
        .apiKey(key)
        .maxRetries(maxRetries)
        .build();
  }

  static void check(String name, Check check) throws JsonProcessingException {
    ObjectNode line = JSON.createObjectNode().put("check", name);
    try {
      CompletionUsage usage = check.run();
      line.put("ok", true);
      if (usage != null) line.putArray("usage").add(usage.promptTokens()).add(usage.completionTokens());
    } catch (Throwable error) {
      line.put("ok", false).put("detail", error.toString());
    }
    System.out.println(JSON.writeValueAsString(line));
  }

  static void equal(Object got, Object expected) {
    if (!expected.equals(got)) throw new AssertionError("got " + got + ", expected " + expected);
  }

  static ChatCompletionCreateParams.Builder ask(String text) {
    return ChatCompletionCreateParams.builder().model(MODEL).addUserMessage(text);
  }

  static CompletionUsage contentIs(OpenAIClient client, ChatCompletionCreateParams params, String expected) {
    ChatCompletion answer = client.chat().completions().create(params);
    equal(answer.choices().get(0).message().content().orElse(""), expected);
    return answer.usage().orElse(null);
  }

  static CompletionUsage contentIs(ChatCompletionCreateParams params, String expected) {
    return contentIs(CLIENT, params, expected);
  }

  static Stream<String> wordsOf(ChatCompletionChunk chunk) {
    return chunk.choices().stream().flatMap(choice -> choice.delta().content().stream()).filter(word -> !word.isEmpty());
  }

  static void goOn() throws IOException {
    URI.create(System.getenv("CONTINUE_URL")).toURL().openStream().close();
  }

  /** Reads a stream to its end. */
  static ChatCompletion accumulated(ChatCompletionCreateParams params) {
    ChatCompletionAccumulator all = ChatCompletionAccumulator.create();
    try (StreamResponse<ChatCompletionChunk> stream = CLIENT.chat().completions().createStreaming(params)) {
      stream.stream().forEach(all::accumulate);
    }
    return all.chatCompletion();
  }

  static FunctionDefinition weather() {
    Map<String, Object> city = Map.of("city", Map.of("type", "string"));
    FunctionParameters parameters = FunctionParameters.builder()
        .putAdditionalProperty("type", JsonValue.from("object"))
        .putAdditionalProperty("properties", JsonValue.from(city))
        .build();
    return FunctionDefinition.builder().name("weather").parameters(parameters).build();
  }

  static CompletionUsage stream() throws IOException {
    List<String> words = new ArrayList<>();
    try (StreamResponse<ChatCompletionChunk> stream =
        CLIENT.chat().completions().createStreaming(ask("scenario:gate").build())) {
      for (Iterator<ChatCompletionChunk> chunks = stream.stream().iterator(); chunks.hasNext(); ) {
        ChatCompletionChunk chunk = chunks.next();
        equal(chunk.usage().isPresent(), false);
        wordsOf(chunk).forEach(words::add);
        if (words.size() == 3) goOn();
      }
    }
    equal(String.join("", words), "one two three four five six ");
    return null;
  }

  static CompletionUsage streamUsage() {
    ChatCompletion whole = accumulated(
        ask("Say hello.")
            .streamOptions(ChatCompletionStreamOptions.builder().includeUsage(true).build())
            .build());
    equal(whole.choices().get(0).message().content().orElse(""), HELLO);
    return whole.usage().orElseThrow();
  }

  static CompletionUsage tool() {
    ChatCompletionCreateParams.Builder question = ask("What is the weather in Oslo?").addFunctionTool(weather());
    var message = CLIENT.chat().completions().create(question.build()).choices().get(0).message();
    var call = message.toolCalls().orElseThrow().get(0).asFunction();
    equal(call.function().arguments(), "{\"city\":\"Oslo\"}");
    question.addMessage(message);
    question.addMessage(ChatCompletionToolMessageParam.builder().toolCallId(call.id()).content("sunny").build());
    return contentIs(question.build(), "It is sunny in Oslo.");
  }

  static CompletionUsage toolStreamed() {
    ChatCompletion whole = accumulated(ask("What is the weather in Oslo?").addFunctionTool(weather()).build());
    var call = whole.choices().get(0).message().toolCalls().orElseThrow().get(0).asFunction();
    equal(call.function().name(), "weather");
    equal(call.function().arguments(), "{\"city\":\"Oslo\"}");
    return null;
  }

  static CompletionUsage structured() {
    var answer = CLIENT.chat().completions().create(ask("Describe a city.").responseFormat(City.class).build());
    City city = answer.choices().get(0).message().content().orElseThrow();
    equal(city.name, "Oslo");
    equal(city.population, 709_000);
    return answer.usage().orElseThrow();
  }

  static CompletionUsage abort() {
    try (StreamResponse<ChatCompletionChunk> stream =
        CLIENT.chat().completions().createStreaming(ask("scenario:endless").build())) {
      equal(stream.stream().limit(3).count(), 3L);
    }
    return null;
  }

  static CompletionUsage timeout() {
    RequestOptions impatient = RequestOptions.builder().timeout(Duration.ofMillis(500)).build();
    OpenAIClient client = clientWith(System.getenv("API_KEY"), 0);
    try {
      client.chat().completions().create(ask("scenario:silent").build(), impatient);
    } catch (OpenAIException expected) {
      equal(expected.getCause() instanceof InterruptedIOException, true);
      return null;
    }
    throw new AssertionError("no timeout");
  }

  static CompletionUsage cut() {
    StringBuilder text = new StringBuilder();
    try (StreamResponse<ChatCompletionChunk> stream =
        CLIENT.chat().completions().createStreaming(ask("scenario:cut").build())) {
      stream.stream().flatMap(Client::wordsOf).forEach(text::append);
    } catch (OpenAIException expected) {
      equal(text.toString(), "cut off here ");
      return null;
    }
    throw new AssertionError("the stream looks whole");
  }

  static CompletionUsage async() {
    List<CompletableFuture<ChatCompletion>> asked = Stream.generate(
            () -> CLIENT.async().chat().completions().create(ask("Say hello.").build()))
        .limit(8)
        .collect(Collectors.toList());
    for (CompletableFuture<ChatCompletion> answer : asked) {
      equal(answer.join().choices().get(0).message().content().orElse(""), HELLO);
    }
    return asked.get(7).join().usage().orElseThrow();
  }

  static Check refused(Class<?> kind, int status, String code, Supplier<?> call) {
    return () -> {
      try {
        call.get();
      } catch (OpenAIServiceException refusal) {
        equal(refusal.getClass(), kind);
        equal(refusal.statusCode(), status);
        equal(refusal.code().orElse(""), code);
        return null;
      }
      throw new AssertionError("not refused");
    };
  }

  static Supplier<?> asking(OpenAIClient client, ChatCompletionCreateParams.Builder params) {
    return () -> client.chat().completions().create(params.build());
  }

  public static void main(String[] args) throws Exception {
    check("models", () -> {
      equal(CLIENT.models().list().data().stream().map(Model::id).toList(), List.of(MODEL));
      return null;
    });
    check("model", () -> {
      equal(CLIENT.models().retrieve(MODEL).id(), MODEL);
      return null;
    });
    check("completion", () -> contentIs(ask("Say hello.").build(), HELLO));
    check("stream", Client::stream);
    check("stream_usage", Client::streamUsage);
    check("tool", Client::tool);
    check("tool_streamed", Client::toolStreamed);
    check("structured", Client::structured);
    check("abort", Client::abort);
    check("timeout", Client::timeout);
    check("cut", Client::cut);
    check("busy", () -> contentIs(ask("scenario:busy").build(), HELLO));
    check("untold", () -> {
      equal(contentIs(ask("scenario:untold").build(), HELLO) == null, true);
      return null;
    });
    check("async", Client::async);
    OpenAIClient unknown = clientWith("sk-ccr-unknown", 2);
    check("401", refused(UnauthorizedException.class, 401, "invalid_api_key", asking(unknown, ask("Say hello."))));
    OpenAIClient empty = clientWith(System.getenv("EMPTY_KEY"), 2);
    check("402", refused(UnexpectedStatusCodeException.class, 402, "insufficient_credits", asking(empty, ask("Say hello."))));
    check("404", refused(NotFoundException.class, 404, "model_not_found", asking(CLIENT, ask("Say hello.").model("acme/unknown"))));
    check("400", refused(BadRequestException.class, 400, "context_length_exceeded", asking(CLIENT, ask("scenario:too-long"))));
    OpenAIClient once = clientWith(System.getenv("API_KEY"), 0);
    check("500", refused(InternalServerException.class, 500, "", asking(once, ask("scenario:broken"))));
    System.exit(0);
  }
}
