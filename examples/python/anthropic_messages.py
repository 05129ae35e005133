"""A streamed message by Anthropic's client. pip install anthropic"""

import os

from anthropic import Anthropic

client = Anthropic(
    base_url=os.environ.get("CANOPY_URL", "http://127.0.0.1:8000"),
    api_key=os.environ.get("CANOPY_API_KEY", "none"),
)

with client.messages.stream(
    model=os.environ.get("CANOPY_MODEL", "moa"),
    max_tokens=256,
    messages=[{"role": "user", "content": "What is 17 * 23? Show the steps."}],
) as stream:
    for text in stream.text_stream:
        print(text, end="", flush=True)
    message = stream.get_final_message()
print(f"\n\n{message.stop_reason}, {message.usage.output_tokens} tokens written by all agents")
