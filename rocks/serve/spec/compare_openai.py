# compare_openai.py - tests a server that has the model `tiny` with the package openai.
#
#   pip install openai
#   build/tlua rocks/serve/spec/models.lua /tmp/models
#   build/tlua serve /tmp/models --port 8000 &
#   python rocks/serve/spec/compare_openai.py 8000 [rocks/serve/spec/fixtures/openai.jsonl]
import json
import sys
import openai
from recorder import Recorder

recorder = Recorder(int(sys.argv[1]))
client = openai.OpenAI(base_url=f"http://127.0.0.1:{recorder.port}/v1", api_key="any", max_retries=0)
names, checks = [], 0


def named(name):
    names.append(name)


def check(condition, what):
    global checks
    assert condition, what
    checks += 1


def refused(name, kind, text, call):
    named(name)
    try:
        call()
    except kind as e:
        return check(text in e.message, (name, e.message))
    raise AssertionError(name + ": expected an error")


named("models"), check("tiny" in [m.id for m in client.models.list()], "models")
named("model"), check(client.models.retrieve("tiny").id == "tiny", "model")
messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi ü"}]
named("chat")
chat = client.chat.completions.create(model="tiny", messages=messages, max_tokens=12, temperature=0)
check(chat.choices[0].finish_reason in ("length", "stop"), chat)
check(chat.usage.completion_tokens == 12 or chat.choices[0].finish_reason == "stop", chat.usage)
named("chat stream")
stream = client.chat.completions.create(model="tiny", messages=messages, max_tokens=12, temperature=0, stream=True,
                                        stream_options={"include_usage": True})
chunks = list(stream)
text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
check(text == chat.choices[0].message.content, (text, chat.choices[0].message.content))
check(chunks[0].choices[0].delta.role == "assistant", chunks[0])
check(chunks[-1].usage.total_tokens == chat.usage.total_tokens, chunks[-1].usage)
check(chunks[-1].usage.prompt_tokens_details.cached_tokens == chat.usage.prompt_tokens - 1, chunks[-1].usage)
check(chunks[-2].choices[0].finish_reason == chat.choices[0].finish_reason, chunks[-2])
before = None
for name in ("chat seed", "chat seed again"):
    named(name)
    seeded = client.chat.completions.create(model="tiny", messages=messages, max_tokens=8, seed=5, n=2)
    check(len(seeded.choices) == 2, seeded)
    check(name == "chat seed" or seeded.choices == before, (seeded.choices, before))
    before = seeded.choices
named("completions")
two = client.completions.create(model="tiny", prompt=["low", "the"], max_tokens=5, temperature=0, echo=True)
check([c.text[:3] for c in two.choices] == ["low", "the"], two)
named("completion of tokens")
tokens = client.completions.create(model="tiny", prompt=[5, 6, 7], max_tokens=5, temperature=0, logit_bias={"5": 100})
check(tokens.choices[0].text == "%%%%%", tokens.choices[0].text)
named("stop")
stopped = client.completions.create(model="tiny", prompt="low", max_tokens=9, temperature=0, logit_bias={"5": 100},
                                    stop=["%%%"])
check(stopped.choices[0].text == "" and stopped.choices[0].finish_reason == "stop", stopped)
named("embeddings")
many = client.embeddings.create(model="tiny", input=["low", "lower"])
named("embeddings as floats")
floats = client.embeddings.create(model="tiny", input=["low", "lower"], encoding_format="float")
for x, y in zip(many.data, floats.data):
    check(max(abs(a - b) for a, b in zip(x.embedding, y.embedding)) < 1e-6, "base64")
    check(abs(sum(a * a for a in x.embedding) - 1) < 1e-5, "length")
named("embedding cut")
check(len(client.embeddings.create(model="tiny", input="low", dimensions=4).data[0].embedding) == 4, "dimensions")
refused("unknown model", openai.NotFoundError, "does not exist",
        lambda: client.chat.completions.create(model="nothing", messages=messages))
refused("no messages", openai.BadRequestError, "messages: expected",
        lambda: client.chat.completions.create(model="tiny", messages=[]))
refused("too hot", openai.BadRequestError, "temperature: expected a number from 0 to 10, got 99",
        lambda: client.completions.create(model="tiny", prompt="a", temperature=99))
refused("too long", openai.BadRequestError, "the model's context has 512 tokens",
        lambda: client.completions.create(model="tiny", prompt="a" * 2000))
named("logprobs")
choice = client.completions.create(model="tiny", prompt="low", max_tokens=5, temperature=0, logprobs=3,
                                   extra_body={"grammar": "root ::= [a-z ]{60}"}).choices[0]
logs = choice.logprobs
check("".join(logs.tokens) == choice.text and len(logs.tokens) == 5, (logs.tokens, choice.text))
check(logs.text_offset == [len("".join(logs.tokens[:i])) for i in range(5)], logs.text_offset)
for token, value, top in zip(logs.tokens, logs.token_logprobs, logs.top_logprobs):
    check(top[token] == value and max(top.values()) >= value and len(top) in (2, 3, 4), (token, value, top))
named("chat logprobs")
arguments = dict(model="tiny", messages=messages, max_tokens=8, seed=2, logprobs=True, top_logprobs=2)
choice = client.chat.completions.create(**arguments).choices[0]
content = choice.logprobs.content
check(b"".join(bytes(t.bytes) for t in content).decode(errors="replace") == choice.message.content, content)
for t in content:
    check(t.logprob < 0 and len(t.top_logprobs) == 2 and t.top_logprobs[0].logprob >= t.logprob, t)
check(len(content) == 8, content)
named("chat logprobs stream")
chunks = [c.choices[0] for c in client.chat.completions.create(**arguments, stream=True)]
streamed = [t for c in chunks if c.logprobs for t in c.logprobs.content]
check([t.token for t in streamed] == [t.token for t in content], streamed)
check(max(abs(a.logprob - b.logprob) for a, b in zip(streamed, content)) < 1e-4, streamed)
schema = {"type": "object", "properties": {"bird": {"enum": ["owl", "jay"]}, "count": {"type": "integer"}},
          "required": ["bird", "count"], "additionalProperties": False}
named("json schema")
answer = client.chat.completions.create(
    model="tiny", messages=messages, seed=4, max_tokens=300, logit_bias={str(ord(c) - 33 + 1): -5 for c in "0123456789"},
    response_format={"type": "json_schema", "json_schema": {"name": "birds", "schema": schema, "strict": True}})
value = json.loads(answer.choices[0].message.content)
check(answer.choices[0].finish_reason == "stop" and value["bird"] in ("owl", "jay"), answer)
check(type(value["count"]) is int and len(value) == 2, value)
named("grammar")
answer = client.completions.create(model="tiny", prompt="low", extra_body={"grammar": 'root ::= ("yes" | "no") "!"'})
check(answer.choices[0].text in ("yes!", "no!") and answer.choices[0].finish_reason == "stop", answer)
refused("schema with a pattern", openai.BadRequestError, "the keyword pattern is not supported",
        lambda: client.chat.completions.create(model="tiny", messages=messages, response_format={
            "type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "string", "pattern": "a"}}}))

named("logprobs and echo")
choice = client.completions.create(model="tiny", prompt="low low", max_tokens=0, logprobs=3, echo=True).choices[0]
check(choice.text == "low low" and choice.logprobs.token_logprobs[0] is None, choice)
check(all(v < 0 for v in choice.logprobs.token_logprobs[1:]) and len(choice.logprobs.text_offset) > 1, choice)

if len(sys.argv) > 2:
    recorder.save(sys.argv[2], names)
print(f"openai: {checks} checks passed")
