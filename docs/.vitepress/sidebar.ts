/** Every page of the site, in the order of the sidebar. A test compares it with the files. */
export const SIDEBAR: readonly { readonly text: string; readonly pages: Readonly<Record<string, string>> }[] =
  [
    {
      text: 'Start',
      pages: {
        index: 'Overview',
        'getting-started': 'Getting started',
        comparison: 'Comparison',
        migrating: 'Migrating',
        faq: 'FAQ',
        glossary: 'Glossary',
      },
    },
    {
      text: 'Requests',
      pages: {
        providers: 'Providers',
        transports: 'Transports',
        models: 'Models',
        failover: 'Failover',
        guards: 'Guards and routing',
        streaming: 'Streaming',
        clients: 'Clients',
        'coding-tools': 'Coding tools',
      },
    },
    {
      text: 'Money',
      pages: {
        pricing: 'Pricing',
        credits: 'Credits',
        keys: 'API keys',
        sessions: 'Sessions',
        usage: 'Usage',
        'beside-chat': 'Beside chat',
        plans: 'Plans',
        selling: 'Selling credits',
        'multi-tenant': 'Multi-tenant',
      },
    },
    {
      text: 'Run it',
      pages: {
        frameworks: 'Frameworks',
        runtimes: 'Runtimes',
        deployment: 'Deployment',
        scaling: 'Scaling',
        'reverse-proxies': 'Reverse proxies',
        redis: 'Redis',
        console: 'Console',
        'account-page': 'Account page',
        operating: 'Operating',
        requests: 'Request log',
        observability: 'Observability',
        webhooks: 'Webhooks',
        security: 'Security',
        privacy: 'Privacy',
        troubleshooting: 'Troubleshooting',
      },
    },
    {
      text: 'Reference',
      pages: {
        options: 'Options',
        errors: 'Errors',
        'command-line': 'Command line',
        admin: 'Admin API',
        testing: 'Testing',
        versioning: 'Versioning',
      },
    },
  ];
