import { describeClient } from '../helpers/client-contract.ts';
import { describeShownProgram } from './shown-program.ts';
import { go } from './toolchains.ts';

const GO = go();

describeClient({
  name: 'openai for Go',
  version: '3.96.0',
  ...GO,
  checks: [
    'models',
    'model',
    'completion',
    'stream',
    'stream_usage',
    'tool',
    'tool_streamed',
    'structured',
    'abort',
    'cancel',
    'cut',
    'busy',
    'untold',
    'parallel',
    '401',
    '402',
    '404',
    '400',
    '500',
  ],
});

describeShownProgram(
  'Go',
  GO,
  (lines) => `package main

import (
	"context"
	"fmt"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func main() {
	ctx := context.Background()
	${lines}
	if err := stream.Err(); err != nil {
		panic(err)
	}
}
`,
);
