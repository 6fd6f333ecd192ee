#!/usr/bin/env bash
# Library: axios 1.21.1, on Node 20
# Guess: `timeout: 1000` bounds a request, whose body takes 4 s, to one second.
# Seen: the request succeeds after 4 s. Once the head has come, the limit is one on silence.
# Date: 2026-11-28
. "$(dirname "$0")/common.sh"
node_packages axios@1.21.1
cat >program.mjs <<'END'
import http from 'node:http';
import axios from 'axios';

// The head comes at once, and a byte of the body each 400 ms.
const server = http.createServer((_, response) => {
    response.writeHead(200);
    let sent = 0;
    const drip = setInterval(() => {
        response.write('x');
        if (++sent === 10) {
            clearInterval(drip);
            response.end();
        }
    }, 400);
});
server.listen(0, '127.0.0.1', async () => {
    const start = performance.now();
    const get = axios.get(`http://127.0.0.1:${server.address().port}/`, { timeout: 1000 });
    const seen = await get.then((answer) => `${answer.data.length} bytes`, (error) => error.code);
    console.log(`${seen} after ${Math.floor((performance.now() - start) / 1000)} s`);
    process.exit();
});
END
expect "$(node program.mjs)" <<'END'
10 bytes after 4 s
END
