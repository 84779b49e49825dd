import type { NextConfig } from 'next';

const config: NextConfig = {
  skipTrailingSlashRedirect: true, // `/v1/` is answered by the router
};

export default config;
