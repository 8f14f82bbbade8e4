-- vocabulary.lua - the meaning of parameters in torch.llm, for help and the manual; see
-- lua/tlua/repl/vocabulary.lua.
return [[
tokens: the numbers of the tokens, from 1
ids: the numbers of the tokens, from 1
messages: the conversation so far
prompt: the text to continue, or its tokens
text: a text in UTF-8
input: a text, or a list of texts
layout: the layout of the weight, such as "Q4_K"; "F32" for an ordinary tensor
special: whether control tokens are read and written as texts
id: the number of the token, from 1
metadata: the names and values of a GGUF file
]]
