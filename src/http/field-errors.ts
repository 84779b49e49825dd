import { InvalidRequestError } from '../errors/request-errors.ts';

/** @param wanted - the valid values, after "must be" */
export function invalidType(path: string, wanted: string): InvalidRequestError {
  return new InvalidRequestError('invalid_type', `The field "${path}" must be ${wanted}.`, path);
}

export function unsupportedField(path: string, reason: string): InvalidRequestError {
  return new InvalidRequestError(
    'unsupported_parameter',
    `The field "${path}" is not accepted here: ${reason}.`,
    path,
  );
}

/** @param isExact - the same name twice, rather than a name that differs in case */
export function duplicateField(path: string, isExact: boolean): InvalidRequestError {
  const message = isExact
    ? `The field "${path}" is present more than once.`
    : `A field differs from "${path}" only in case; some providers treat the two as the same.`;
  return new InvalidRequestError('ambiguous_parameter', message, path);
}

/** Two fields with the same meaning are present. */
export function conflictingFields(path: string, other: string): InvalidRequestError {
  return new InvalidRequestError(
    'ambiguous_parameter',
    `The fields "${path}" and "${other}" mean the same; send only one of them.`,
    path,
  );
}
