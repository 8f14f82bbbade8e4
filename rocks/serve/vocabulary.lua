-- vocabulary.lua - the meaning of parameters in torch.serve, for help and the manual; see
-- lua/tlua/repl/vocabulary.lua.
return [[
models: a folder of models, a file, or programs of torch.export
]]
