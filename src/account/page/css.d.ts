/** A stylesheet as text, as vite imports it. */
declare module '*.css?inline' {
  const css: string;
  export default css;
}
