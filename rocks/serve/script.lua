-- script.lua - serves a model that is written in Lua, such as a tokenizer with a program. Its file,
-- model.lua, is called with the path of its folder and the device, and returns a table:
--
--    local torch = require "tlua"
--    local folder = ...
--    local tokenizer = torch.text.Tokenizer.from_pretrained(folder)
--    return {
--       inputs = {{name = "text", datatype = "BYTES", shape = {-1}}},
--       outputs = {{name = "count", datatype = "INT64", shape = {-1}}},
--       run = function(inputs)
--          local counts = {}
--          for i, text in ipairs(inputs.text) do counts[i] = #tokenizer:encode(text).ids end
--          return {count = torch.tensor(counts, {dtype = "int64"})}
--       end,
--    }
--
-- A size of -1 stands for any size. Inputs and outputs are tensors; those of the datatype BYTES are
-- lists of texts with a field `shape`. An output list without this field has one dimension. If the
-- model raises a table {status = 400, message = "..."}, the client gets this status and message;
-- after any other error it gets status 500.

local torch = require "tlua"
local args = require "tlua.args"
local json = require "tlua.utils.json"
local datatypes = require "tlua.serve.datatypes"
local errors = require "tlua.serve.errors"
local Program = require "tlua.serve.program".Program

local M = {}

local Script = setmetatable({}, {__index = Program})
Script.__index = Script

-- Checks the list of a model's inputs or outputs. Returns copies of its entries, and a table that
-- maps names to indices.
local function read_tensors(self, list, what)
   local function refuse(where, expected, value)
      torch.raise(("serve: model %s: %s: expected %s, got %s"):format(self.name, where, expected,
         args.describe(value)))
   end
   if type(list) ~= "table" or #list == 0 then
      refuse(what, "a list of at least one table {name =, datatype =, shape =}", list)
   end
   local out, index, names = {}, {}, {}
   for i, entry in ipairs(list) do
      local where = ("%s[%d]"):format(what, i)
      if type(entry) ~= "table" then refuse(where, "a table", entry) end
      local name, datatype, shape = entry.name, entry.datatype, entry.shape
      if type(name) ~= "string" or name == "" or not utf8.len(name) or index[name] then
         refuse(where .. ".name", "a name that no other has", name)
      end
      if datatype ~= "BYTES" and not datatypes.dtypes[datatype] then
         refuse(where .. ".datatype", "a datatype of the protocol, such as FP32", datatype)
      end
      if type(shape) ~= "table" then refuse(where .. ".shape", "a list of sizes", shape) end
      local copy = {name = name, quoted = json.encode(name), datatype = datatype,
         dtype = datatypes.dtypes[datatype], width = datatypes.sizes[datatype], shape = {},
         declared = {}}
      for d, size in ipairs(shape) do
         if math.type(size) ~= "integer" or size < -1 then
            refuse(("%s.shape[%d]"):format(where, d), "a size, or -1 for any size", size)
         end
         copy.shape[d] = size
         copy.declared[d] = size < 0 and ("%d.%d"):format(i, d) or size
      end
      out[i], index[name], names[i] = copy, i, name
   end
   return out, index, table.concat(names, ", ")
end

local function load_file(path)
   local file <close>, why = io.open(path, "rb")
   local text
   if file then text, why = file:read "a" end
   if not text then
      torch.raise(("serve: cannot read %s"):format(why:find(path, 1, true) and why
         or path .. ": " .. why))
   end
   local chunk, message = load(text, "@" .. path, "t", _G)
   if not chunk then torch.raise("serve: " .. message) end
   return chunk
end

--- Loads a model that is written in Lua.
---@param spec table  has the fields name, version, path and options
---@param http table
---@return table
function M.load(spec, http)
   local self = setmetatable({name = spec.name, version = spec.version, http = http,
      options = spec.options, plans = {n = 0}, body_most = spec.body_most, max_batch_size = 1},
      Script)
   -- The file is loaded with a deadline that never comes. Only then can a later deadline end the
   -- coroutines that the file creates.
   local _, ok, model = torch._within(math.huge, load_file(spec.path),
      spec.path:match "^(.*)/" or ".", spec.options.device)
   if not ok then error(model, 0) end
   if type(model) ~= "table" or not args.is_callable(model.run) then
      torch.raise(("serve: %s: expected a table with inputs, outputs and a function `run`, got %s")
         :format(spec.path, type(model) == "table" and "one without `run`"
         or args.describe(model)))
   end
   self.call = model.run
   self.inputs, self.input_index, self.input_list = read_tensors(self, model.inputs, "inputs")
   self.outputs, self.output_index, self.output_list = read_tensors(self, model.outputs, "outputs")
   self.prefix = ('{"model_name":%s,"model_version":"%s",'):format(json.encode(self.name),
      self.version)
   return self
end

--- Returns a description of the model for clients and for the server.
function Script:describe()
   return {kind = "script", inputs = self.inputs, outputs = self.outputs, max_batch_size = 0}
end

-- Calls a function, which is ended at the deadline. Raises an error with status 504 if this
-- happens.
local function limited(self, fn, ...)
   local late, ok, value = torch._within(self.options.timeout, fn, ...)
   if late then error({status = 504, message = "the deadline is over"}, 0) end
   if not ok then
      local problem = value
      if type(problem) == "table" and math.type(problem.status) == "integer"
         and problem.status >= 400 and problem.status <= 599 then
         error({status = problem.status, message = errors.text(problem.message)}, 0)
      end
      error({status = 500, message = ("model %s: %s"):format(self.name,
         errors.text(problem))}, 0)
   end
   return value
end

local function shown(shape) return ("the shape [%s]"):format(table.concat(shape, ",")) end

-- Returns the shape of a list of texts. If the value is no such list, returns nil and two
-- descriptions for a message: of the expected value and of the actual value.
local function shape_of_texts(value)
   if type(value) ~= "table" then return nil, "a list of texts", args.describe(value) end
   local shape, count = value.shape or {#value}, 1
   if type(shape) ~= "table" then return nil, "a list as the shape", args.describe(shape) end
   for d, size in ipairs(shape) do
      if math.type(size) ~= "integer" or size < 0 or size > 0 and count > math.maxinteger // size
      then
         return nil, ("a size as shape[%d]"):format(d), args.describe(size)
      end
      count = count * size
   end
   if count ~= #value then return nil, ("%d texts"):format(count), tostring(#value) end
   for i = 1, count do
      if type(value[i]) ~= "string" then
         return nil, ("a text at [%d]"):format(i), args.describe(value[i])
      end
   end
   return shape
end

-- Returns the shape of an output. If the output is wrong, returns nil and two descriptions for a
-- message: of the expected value and of the actual value.
local function check_output(output, value)
   local shape, expected, got
   if output.datatype == "BYTES" then
      shape, expected, got = shape_of_texts(value)
      if not shape then return nil, expected, got end
   else
      if not torch.is_tensor(value) or value.dtype ~= output.dtype then
         return nil, ("a tensor of %s"):format(output.dtype), args.describe(value)
      end
      shape = value.shape
   end
   local fits = #shape == #output.shape
   for d, size in ipairs(output.shape) do fits = fits and (size < 0 or size == shape[d]) end
   if not fits then
      return nil, shown(output.shape), torch.is_tensor(value) and args.describe(value)
         or shown(shape)
   end
   return {table.unpack(shape)}
end

-- Runs the model on inputs that are given as bytes. Returns the outputs as {bytes =, shape =, key
-- =}.
function Script:run(data, shapes)
   local inputs = {}
   for i, input in ipairs(self.inputs) do
      if input.datatype == "BYTES" then
         inputs[input.name] = data[i]
         data[i].shape = {table.unpack(shapes[i])}
      else
         inputs[input.name] = self.tensor(data[i], shapes[i], input.dtype)
      end
   end
   return limited(self, self.results, self, inputs)
end

-- Calls the model with its inputs. Returns the outputs as {bytes =, shape =, key =}.
function Script:results(inputs)
   local outputs, results = self.call(inputs), {}
   for i, output in ipairs(self.outputs) do
      local value = type(outputs) == "table" and outputs[output.name] or nil
      local shape, expected, got = check_output(output, value)
      if not shape then
         error({status = 500, message = ("model %s: output %s: expected %s, got %s"):format(
            self.name, output.name, expected, got)}, 0)
      end
      results[i] = {shape = shape, key = table.concat(shape, ",")}
      if output.datatype == "BYTES" then
         local pieces = {}
         for k, text in ipairs(value) do pieces[k] = ("<s4"):pack(text) end
         results[i].texts, results[i].bytes = value, table.concat(pieces)
      else
         results[i].bytes = self:bytes_of(value, output.width)
      end
   end
   return results
end

return M
