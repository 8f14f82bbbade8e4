-- init.lua - torch.onnx: reads and writes models in the format of ONNX.

require "tlua" -- defines the core's modules for `require`
local args = require "tlua.args"
local wire = require "tlua.onnx.wire"

local M = {}

local function folder_of(path) return path:match "^(.*[/\\])" or "" end

--- Reads a model from an ONNX file, as a module that can be called and trained. Data in other files
--- of the model's folder are read too; large files are mapped. Models may use the operators of all
--- versions up to 28 of the domain ai.onnx, up to 5 of ai.onnx.ml, and functions of their own.
---@param path string
---@return onnx.Module
function M.load(path)
   if type(path) ~= "string" then args.refuse("onnx.load", "path", "a path", path) end
   return wire.protect("onnx.load: " .. path, function()
      local reader = wire.open(path)
      local proto = wire.read(reader, "ModelProto")
      return require "tlua.onnx.Module"._wrap(proto,
         {reader = reader, folder = folder_of(path), files = {}})
   end)
end

--- Reads a tensor from a file of test data, such as `input_0.pb`, which has a TensorProto.
---@param path string
---@param kind? "TensorProto"|"SequenceProto"|"OptionalProto"
---@return any value
function M._read_value(path, kind)
   return wire.protect("onnx: " .. path, function()
      local values = require "tlua.onnx.values"
      local reader = wire.open(path)
      local source = {reader = reader, folder = folder_of(path), files = {}}
      local proto = wire.read(reader, kind or "TensorProto")
      local function sequence(list)
         local items = {}
         for i, item in ipairs(list.tensor_values or {}) do
            items[i] = values.read(item, source, "value")
         end
         return values.sequence(items)
      end
      if kind == "SequenceProto" then return sequence(proto) end
      if kind == "OptionalProto" then
         if proto.tensor_value then return values.read(proto.tensor_value, source, "value") end
         return proto.sequence_value and sequence(proto.sequence_value) or nil
      end
      return values.read(proto, source, "value")
   end)
end

return M
