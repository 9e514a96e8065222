// One click through guacamole-lite: its server in front of a guacd, and a browser's end of the WebSocket.
// Started by support/foreign.py with NODE_PATH set to where guacamole-lite is installed.
//
// First line of stdin, JSON: {"host", "port", "connection"}, the last as guacamole-lite wants it in its
// token. Each instruction that the page gets goes to stdout, one a line. The end of stdin is the page's.

// guacamole-lite logs a line to stdout whatever its level, and stdout is for instructions here.
console.log = console.error;

const crypto = require('crypto');
const readline = require('readline');
const { WebSocket } = require('ws');
const GuacamoleLite = require('guacamole-lite');
const Crypt = require('guacamole-lite/lib/Crypt.js');

const CIPHER = 'AES-256-CBC';
const key = crypto.randomBytes(32);

function click({ host, port, connection }) {
    const server = new GuacamoleLite(
        { host: '127.0.0.1', port: 0 },
        { host, port },
        { crypt: { cypher: CIPHER, key }, log: { level: 'NORMAL' } });
    server.on('error', (_connection, error) => console.error(error));
    server.webSocketServer.on('listening', () => {
        const token = encodeURIComponent(new Crypt(CIPHER, key).encrypt({ connection }));
        const { port: own } = server.webSocketServer.address();
        browse(new WebSocket(`ws://127.0.0.1:${own}/?token=${token}`, 'guacamole'));
    });
}

function browse(page) {
    page.on('message', (data) => {
        const instruction = data.toString();
        process.stdout.write(instruction + '\n');
        const sync = /^4\.sync,(\d+)\.(\d+)/.exec(instruction);
        if (sync) page.send(`4.sync,${sync[1]}.${sync[2]};`);
    });
    page.on('error', (error) => console.error(error));
    page.on('close', () => process.exit(0));
    process.stdin.on('end', () => {
        if (page.readyState === WebSocket.OPEN) page.send('10.disconnect;');
        page.close();
    });
}

readline.createInterface({ input: process.stdin }).once('line', (line) => click(JSON.parse(line)));
