/** A text with asterisks in place of the credentials in its URLs. */
export function withoutCredentials(text: string): string {
  return text.replace(/\/\/[^\s/]*@/g, '//***@');
}
