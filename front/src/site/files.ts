// Load the files of the site, and report how many bytes have been loaded

import { addressOf, type File, type Refusal } from "./messages";

/** Thrown if the worker cannot do what the page asks for, such as read a text that is too long; `refusal` says why. */
export class Refused extends Error {
  constructor(readonly refusal: Refusal) {
    super(refusal.reason);
  }
}

/** Load files from the folder with this address, all at the same time. `tell` is called with the bytes loaded so far and the total. */
export async function load(address: string, files: File[], tell: (loaded: number, total: number) => void): Promise<Uint8Array[]> {
  const total = files.reduce((sum, { bytes }) => sum + bytes, 0);
  let loaded = 0;
  return Promise.all(
    files.map(async (file) => {
      try {
        const answer = await fetch(addressOf(file, address));
        if (!answer.ok) throw new Error(`status ${answer.status}`);
        return await read(answer, file.bytes, (newBytes) => tell((loaded += newBytes), total));
      } catch (error) {
        throw new Refused({ reason: "file", file: file.name, error: (error as Error).message });
      }
    }),
  );
}

async function read(answer: Response, bytes: number, report: (newBytes: number) => void): Promise<Uint8Array> {
  const content = new Uint8Array(bytes);
  let nRead = 0;
  for (const reader = answer.body!.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    if (nRead + value.length > bytes) throw new Error(`more than ${bytes} bytes`);
    content.set(value, nRead);
    nRead += value.length;
    report(value.length);
  }
  if (nRead < bytes) throw new Error(`${nRead} of ${bytes} bytes`);
  return content;
}
