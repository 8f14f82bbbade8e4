-- vocabulary.lua - explains the parameters of torch.serve's functions, for `help` and the manual.
-- lua/tlua/repl/vocabulary.lua describes the format.
return [[
models: a folder of models, a file, or programs of torch.export
]]
