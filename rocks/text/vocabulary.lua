-- vocabulary.lua - the meaning of parameters in torch.text, for help and the manual; see
-- lua/tlua/repl/vocabulary.lua.
return [[
numbers: the numbers of the tokens
input_ids: (B, S): the numbers of the tokens, from 1
]]
