-- vocabulary.lua - describes parameters of functions of torch.text, for the function `help` and for
-- the manual. lua/tlua/repl/vocabulary.lua explains the format.
return [[
numbers: the numbers of the tokens
input_ids: the numbers of the tokens, from 1, of shape (B, S)
]]
