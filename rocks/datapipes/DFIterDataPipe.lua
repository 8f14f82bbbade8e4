-- DFIterDataPipe.lua - the base of pipes whose items are data frames: tables of columns by name.

local class = require "tlua.class"
local IterDataPipe = require "tlua.datapipes.IterDataPipe"

---@class data.DFIterDataPipe: data.IterDataPipe
local DFIterDataPipe = class.class("data.DFIterDataPipe", IterDataPipe)

DFIterDataPipe.type = "table"

return DFIterDataPipe
