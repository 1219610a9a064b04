// Speaks with the `openai` npm package: `node openai_node.js create|stream BASE_URL REQUEST`.
// The audio goes to stdout, as it comes for `stream`; an APIError goes to stderr as JSON.

import OpenAI from "openai";

const [how, baseURL, request] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "client-key", maxRetries: 0 });

try {
  const response = await client.audio.speech.create(JSON.parse(request));
  if (how === "create") {
    process.stdout.write(Buffer.from(await response.arrayBuffer()));
  } else {
    for await (const piece of response.body) process.stdout.write(piece);
  }
} catch (error) {
  if (!(error instanceof OpenAI.APIError)) throw error;
  const { status, code, param, type, message, requestID } = error;
  const name = error.constructor.name;
  console.error(JSON.stringify({ name, status, code, param, type, message, requestID }));
  process.exitCode = 1;
}
