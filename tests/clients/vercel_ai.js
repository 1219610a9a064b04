// Speaks with the Vercel AI SDK: `node vercel_ai.js BASE_URL REQUEST`, audio to stdout.

import { createOpenAI } from "@ai-sdk/openai";
import { experimental_generateSpeech as generateSpeech } from "ai";

const [baseURL, request] = process.argv.slice(2);
const { model, voice, input: text } = JSON.parse(request);
const openai = createOpenAI({ baseURL, apiKey: "client-key" });

const { audio } = await generateSpeech({ model: openai.speech(model), voice, text });
console.error(JSON.stringify({ mediaType: audio.mediaType, format: audio.format }));
process.stdout.write(audio.uint8Array);
