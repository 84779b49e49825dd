import { context, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { BatchSpanProcessor, ConsoleSpanExporter, TracerProvider } from '@opentelemetry/sdk-trace';

/** Prints spans. Your own app has `@opentelemetry/sdk-node` in its place, with an exporter for your collector. */
export function startTracing(): TracerProvider {
  const provider = new TracerProvider({
    spanProcessors: [
      new BatchSpanProcessor({ exporter: new ConsoleSpanExporter(), scheduledDelayMillis: 1000 }),
    ],
  });
  trace.setGlobalTracerProvider(provider);
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  return provider;
}
