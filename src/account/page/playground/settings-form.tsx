import type { JSX } from 'preact';

import type { Settings } from './chat-request.ts';
import { type OwnModel, priceOf } from './model-price.ts';

interface SettingsFormProps {
  readonly settings: Settings;
  readonly models: readonly OwnModel[];
  readonly change: (changed: Partial<Settings>) => void;
}

export function SettingsForm({ settings, models, change }: SettingsFormProps): JSX.Element {
  const model = models.find(({ id }) => id === settings.model);
  return (
    <section class="card settings" aria-label="Settings">
      <div class="form-field">
        <label htmlFor="model">Model</label>
        <select
          id="model"
          value={settings.model}
          onChange={(event) => change({ model: event.currentTarget.value })}
        >
          {models.map(({ id }) => (
            <option key={id} value={id}>
              {id}
            </option>
          ))}
        </select>
        {model && <small id="model-price">{priceOf(model)}</small>}
      </div>
      <div class="form-field">
        <label htmlFor="system">System prompt</label>
        <textarea
          id="system"
          rows={4}
          placeholder="You are a helpful assistant."
          value={settings.system}
          onInput={(event) => change({ system: event.currentTarget.value })}
        />
      </div>
      <div class="numbers">
        <div class="form-field">
          <label htmlFor="temperature">Temperature</label>
          <input
            id="temperature"
            type="number"
            min={0}
            max={2}
            step={0.1}
            placeholder="Default"
            value={settings.temperature}
            onInput={(event) => change({ temperature: event.currentTarget.value })}
          />
        </div>
        <div class="form-field">
          <label htmlFor="max-tokens">Max tokens</label>
          <input
            id="max-tokens"
            type="number"
            min={1}
            step={1}
            placeholder="Default"
            value={settings.maxTokens}
            onInput={(event) => change({ maxTokens: event.currentTarget.value })}
          />
        </div>
      </div>
    </section>
  );
}
