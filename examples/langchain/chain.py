"""A chain over a tree: a prompt, the tree, a text; streamed, then two at once. pip install langchain-openai"""

import os

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI

model = ChatOpenAI(
    model=os.environ.get("CANOPY_MODEL", "moa"),
    base_url=os.environ.get("CANOPY_URL", "http://127.0.0.1:8000") + "/v1",
    api_key=os.environ.get("CANOPY_API_KEY", "none"),
    max_tokens=128,
)
prompt = ChatPromptTemplate.from_messages([("system", "You are a teacher."), ("human", "{question}")])
chain = prompt | model | StrOutputParser()

for piece in chain.stream({"question": "What is 17 * 23?"}):
    print(piece, end="", flush=True)
answers = chain.batch([{"question": "What is 12 * 12?"}, {"question": "Why is the sky blue?"}])
print(f"\n\n{len(answers)} more answers: {[answer[:40] for answer in answers]}")
