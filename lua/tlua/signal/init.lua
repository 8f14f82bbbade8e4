-- init.lua - torch.signal: window functions.

local lazy = require "tlua.lazy"

--- Functions for signals. torch.signal.windows has window functions for Fourier transforms.
local M = {}

return lazy.load(M, lazy.modules("tlua", {["signal.windows"] = "windows"}))
