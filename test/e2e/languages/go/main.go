// The official client for Go: prints a line of JSON for each check.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
)

var (
	ctx     = context.Background()
	baseURL = os.Getenv("BASE_URL")
	model   = os.Getenv("MODEL")
	client  = clientWith(os.Getenv("API_KEY"))
)

const hello = "Hello from the provider."

type usage = *openai.CompletionUsage

func clientWith(key string) *openai.Client {
	made := openai.NewClient(option.WithBaseURL(baseURL), option.WithAPIKey(key))
	return &made
}

type line struct {
	Check  string  `json:"check"`
	OK     bool    `json:"ok"`
	Detail string  `json:"detail"`
	Usage  []int64 `json:"usage,omitempty"`
}

func check(name string, run func() (string, usage, error)) {
	detail, told, err := run()
	printed := line{Check: name, OK: err == nil, Detail: detail}
	if err != nil {
		printed.Detail = fmt.Sprintf("%s: %v", detail, err)
	}
	if told != nil {
		printed.Usage = []int64{told.PromptTokens, told.CompletionTokens}
	}
	text, _ := json.Marshal(printed)
	fmt.Println(string(text))
}

func equal(got, expected any) error {
	if fmt.Sprint(got) != fmt.Sprint(expected) {
		return fmt.Errorf("got %v, expected %v", got, expected)
	}
	return nil
}

func ask(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:    model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)},
	}
}

func goOn() error {
	response, err := http.Get(os.Getenv("CONTINUE_URL"))
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func contentOf(params openai.ChatCompletionNewParams, expected string) (string, usage, error) {
	answer, err := client.Chat.Completions.New(ctx, params)
	if err != nil {
		return "", nil, err
	}
	text := answer.Choices[0].Message.Content
	return text, &answer.Usage, equal(text, expected)
}

// accumulated reads a stream to its end.
func accumulated(params openai.ChatCompletionNewParams, onChunk func(int) error) (openai.ChatCompletionAccumulator, error) {
	all := openai.ChatCompletionAccumulator{}
	stream := client.Chat.Completions.NewStreaming(ctx, params)
	for chunks := 1; stream.Next(); chunks++ {
		all.AddChunk(stream.Current())
		if onChunk == nil {
			continue
		}
		if err := onChunk(chunks); err != nil {
			return all, err
		}
	}
	return all, stream.Err()
}

func weather() []openai.ChatCompletionToolUnionParam {
	return []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: "weather",
		Parameters: shared.FunctionParameters{
			"type":       "object",
			"properties": map[string]any{"city": map[string]string{"type": "string"}},
		},
	})}
}

func refused(status int, code string, err error) (string, usage, error) {
	var refusal *openai.Error
	if !errors.As(err, &refusal) {
		return "not an openai.Error", nil, fmt.Errorf("%w", err)
	}
	return refusal.Message, nil, equal([]any{refusal.StatusCode, refusal.Code}, []any{status, code})
}

func main() {
	check("models", func() (string, usage, error) {
		page, err := client.Models.List(ctx)
		if err != nil {
			return "", nil, err
		}
		return "", nil, equal([]any{len(page.Data), page.Data[0].ID}, []any{1, model})
	})
	check("model", func() (string, usage, error) {
		found, err := client.Models.Get(ctx, model)
		if err != nil {
			return "", nil, err
		}
		return found.ID, nil, equal(found.ID, model)
	})
	check("completion", func() (string, usage, error) { return contentOf(ask("Say hello."), hello) })
	check("stream", func() (string, usage, error) {
		all, err := accumulated(ask("scenario:gate"), func(chunks int) error {
			if chunks == 3 {
				return goOn()
			}
			return nil
		})
		if err != nil {
			return "", nil, err
		}
		return "", nil, equal([]any{all.Choices[0].Message.Content, all.Usage.TotalTokens}, []any{"one two three four five six ", 0})
	})
	check("stream_usage", func() (string, usage, error) {
		params := ask("Say hello.")
		params.StreamOptions.IncludeUsage = openai.Bool(true)
		all, err := accumulated(params, nil)
		if err != nil {
			return "", nil, err
		}
		return "", &all.Usage, equal(all.Choices[0].Message.Content, hello)
	})
	check("tool", tool)
	check("tool_streamed", func() (string, usage, error) {
		params := ask("What is the weather in Oslo?")
		params.Tools = weather()
		all, err := accumulated(params, nil)
		if err != nil {
			return "", nil, err
		}
		call := all.Choices[0].Message.ToolCalls[0].Function
		return "", nil, equal([]string{call.Name, call.Arguments}, []string{"weather", `{"city":"Oslo"}`})
	})
	check("structured", func() (string, usage, error) {
		params := ask("Describe a city.")
		params.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
				Name:   "city",
				Strict: openai.Bool(true),
				Schema: map[string]any{
					"type":       "object",
					"properties": map[string]any{"name": map[string]string{"type": "string"}},
				},
			},
		}
		return contentOf(params, `{"name":"Oslo"}`)
	})
	check("abort", func() (string, usage, error) {
		stream := client.Chat.Completions.NewStreaming(ctx, ask("scenario:endless"))
		words := 0
		for words < 3 && stream.Next() {
			words++
		}
		return "", nil, errors.Join(equal(words, 3), stream.Close())
	})
	check("cancel", func() (string, usage, error) {
		impatient, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		_, err := client.Chat.Completions.New(impatient, ask("scenario:silent"))
		return "", nil, equal(errors.Is(err, context.DeadlineExceeded), true)
	})
	check("cut", func() (string, usage, error) {
		all, err := accumulated(ask("scenario:cut"), nil)
		if err == nil {
			return "", nil, errors.New("the stream looks whole")
		}
		return err.Error(), nil, equal(all.Choices[0].Message.Content, "cut off here ")
	})
	check("busy", func() (string, usage, error) { return contentOf(ask("scenario:busy"), hello) })
	check("untold", func() (string, usage, error) {
		_, told, err := contentOf(ask("scenario:untold"), hello)
		if err != nil {
			return "", nil, err
		}
		return "", nil, equal(told.TotalTokens, 0)
	})
	check("parallel", parallel)
	check("401", func() (string, usage, error) {
		_, err := clientWith("sk-ccr-unknown").Chat.Completions.New(ctx, ask("Say hello."))
		return refused(401, "invalid_api_key", err)
	})
	check("402", func() (string, usage, error) {
		_, err := clientWith(os.Getenv("EMPTY_KEY")).Chat.Completions.New(ctx, ask("Say hello."))
		return refused(402, "insufficient_credits", err)
	})
	check("404", func() (string, usage, error) {
		params := ask("Say hello.")
		params.Model = "acme/unknown"
		_, err := client.Chat.Completions.New(ctx, params)
		return refused(404, "model_not_found", err)
	})
	check("400", func() (string, usage, error) {
		_, err := client.Chat.Completions.New(ctx, ask("scenario:too-long"))
		return refused(400, "context_length_exceeded", err)
	})
	check("500", func() (string, usage, error) {
		_, err := client.Chat.Completions.New(ctx, ask("scenario:broken"), option.WithMaxRetries(0))
		return refused(500, "", err)
	})
}

func tool() (string, usage, error) {
	params := ask("What is the weather in Oslo?")
	params.Tools = weather()
	first, err := client.Chat.Completions.New(ctx, params)
	if err != nil {
		return "", nil, err
	}
	call := first.Choices[0].Message.ToolCalls[0]
	if err := equal(call.Function.Arguments, `{"city":"Oslo"}`); err != nil {
		return "", nil, err
	}
	params.Messages = append(params.Messages, first.Choices[0].Message.ToParam(), openai.ToolMessage("sunny", call.ID))
	return contentOf(params, "It is sunny in Oslo.")
}

func parallel() (string, usage, error) {
	failures := make([]error, 8)
	var running sync.WaitGroup
	for i := range failures {
		running.Go(func() { _, _, failures[i] = contentOf(ask("Say hello."), hello) })
	}
	running.Wait()
	return "", nil, errors.Join(failures...)
}
