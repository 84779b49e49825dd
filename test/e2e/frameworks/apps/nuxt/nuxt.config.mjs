export default { telemetry: false, compatibilityDate: '2026-01-01', typescript: { typeCheck: false } };
