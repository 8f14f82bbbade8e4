-- init.lua - torch.onnx: reads and writes models in the ONNX format.

require "tlua" -- this call makes the core's modules known to `require`
local args = require "tlua.args"
local wire = require "tlua.onnx.wire"

local M = {}

local function folder_of(path) return path:match "^(.*[/\\])" or "" end

--- Reads a model from an ONNX file, and returns it as a module that can be called and trained.
--- Weights in other files of the model's folder are read too. Large files are memory-mapped. Models
--- may use the operators of the domain ai.onnx up to version 28, those of ai.onnx.ml up to version
--- 5, and functions that the file defines.
---@param path string
---@param options? {max_loop_steps: integer}  the largest number of loop steps in one call, counted
--- over all loops, 1000000 by default; a call that needs more raises an error
---@return onnx.Module
function M.load(path, options)
   if type(path) ~= "string" or path == "" or path:find "%z" then
      args.refuse("onnx.load", "path", "a path", path)
   end
   args.check_options("onnx.load", options, "max_loop_steps")
   local most = options and options.max_loop_steps
   if most == nil then most = 1000000 end
   if math.type(most) ~= "integer" or most < 1 then
      args.refuse("onnx.load", "max_loop_steps", "an integer of at least 1", most)
   end
   local reader = wire.protect("onnx.load", wire.open, path)
   return wire.protect("onnx.load: " .. path, function()
      local proto = wire.read(reader, "ModelProto")
      return require "tlua.onnx.Module"._wrap(proto,
         {reader = reader, folder = folder_of(path), files = {}}, most)
   end)
end

--- Writes a model as an ONNX file, for the operators of versions 17 to 23. The model is traced in
--- evaluation mode with the given inputs. All sizes are fixed, except those that dynamic_axes
--- names. Each node is executed for the given inputs and for inputs of other sizes, and the file is
--- written only if the results equal the model's. Positions, such as labels and tokens, count from
--- 1 in the file too.
---
---     local path = os.tmpname()
---     local model = nn.Sequential(nn.Linear(2, 3), nn.ReLU()):eval()
---     local options = {
---        input_names = {"x"}, dynamic_axes = {x = {[1] = "batch"}},
---     }
---     torch.onnx.export(model, {torch.ones(1, 2)}, path, options)
---     local loaded = torch.onnx.load(path)
---     print(loaded)
---     --> onnx.Module(x: float32 {batch, 2} -> output; 3 nodes)
---     local x = torch.randn(5, 2)
---     print(torch.allclose(loaded(x), model(x)))
---     --> true
---     os.remove(path)
---@param model nn.Module|function
---@param inputs Tensor|table  the arguments of the call, in a list
---@param path string  the file to write
---@param options? {input_names: string[], output_names: string[], dynamic_axes: table<string,
--- table>, opset_version: integer, external_data: boolean}  dynamic_axes: for each input by name,
--- its dimensions that may have another size, as torch.export's option `dynamic` has them: `{x =
--- {[1] = "batch"}}`; opset_version: 17 to 23, 18 by default; external_data: whether the weights
--- are written into a second file, `path` with ".data" appended, as they always are for a model of
--- about 2 GiB or more
function M.export(model, inputs, path, options)
   return require "tlua.onnx.export".export(model, inputs, path, options)
end

--- Reads a value from a file of test data, such as `input_0.pb`, which contains a TensorProto.
---@param path string
---@param kind? "TensorProto"|"SequenceProto"|"OptionalProto"
---@return any value
function M._read_value(path, kind)
   local reader = wire.protect("onnx", wire.open, path)
   return wire.protect("onnx: " .. path, function()
      local values = require "tlua.onnx.values"
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
