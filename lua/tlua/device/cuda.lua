-- torch.cuda, the functions that are written in Lua.

return require "tlua.device" "cuda"
