-- The functions of torch.sim that are written in Lua.

return require "tlua.device" "sim"
