-- init.lua - torch.signal: windows.

local lazy = require "tlua.lazy"

--- Signals: torch.signal.windows has windows for Fourier transforms.
local M = {}

return lazy.load(M, lazy.modules("tlua", {["signal.windows"] = "windows"}))
