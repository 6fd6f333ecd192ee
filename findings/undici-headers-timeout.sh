#!/usr/bin/env bash
# Library: undici 7.30.2, on Node 20
# Guess: `headersTimeout: 300` ends a request to a silent server after 0.3 s, and 1,200 after 1.2 s.
# Seen: after 1 s and 1.5 s. It is counted in half seconds, and the least is one second.
# Date: 2026-11-28
. "$(dirname "$0")/common.sh"
node_packages undici@7.30.2
cat >program.mjs <<'END'
import http from 'node:http';
import { request } from 'undici';

const server = http.createServer(() => {}); // never answers
server.listen(0, '127.0.0.1', async () => {
    const url = `http://127.0.0.1:${server.address().port}/`;
    for (const headersTimeout of [300, 1200]) {
        const start = performance.now();
        const error = await request(url, { headersTimeout }).catch((error) => error);
        const late = performance.now() - start - headersTimeout;
        console.log(`${headersTimeout} ms: ${error.code}, ${late > 200 ? 'more' : 'less'} than 200 ms late`);
    }
    process.exit();
});
END
expect "$(node program.mjs)" <<'END'
300 ms: UND_ERR_HEADERS_TIMEOUT, more than 200 ms late
1200 ms: UND_ERR_HEADERS_TIMEOUT, more than 200 ms late
END
