-- vocabulary.lua - describes the parameters of torch.text, for help and the manual. The format is
-- explained in lua/tlua/repl/vocabulary.lua.
return [[
numbers: the numbers of the tokens
input_ids: (B, S): the numbers of the tokens, from 1
]]
