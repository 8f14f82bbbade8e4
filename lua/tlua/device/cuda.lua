-- The functions of torch.cuda that are written in Lua.

return require "tlua.device" "cuda"
