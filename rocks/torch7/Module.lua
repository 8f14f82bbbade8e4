-- Module.lua - nn.Module with Torch7's protocol on top of tlua's autograd. A layer is defined by a
-- list of fields and a function that uses tlua's operators. `updateOutput` runs this function on
-- detached inputs and parameters, so that autograd records it. `backward` consists of
-- updateGradInput and accGradParameters, which compute gradients from this record.

local tlua = require "tlua"
local args = require "tlua.args"
local torch = require "tlua.torch7.torch"
local types = require "tlua.torch7.types"
local classes = require "tlua.torch7.classes"
local copying = require "tlua.torch7.copying"
local records = require "tlua.torch7.records"

local field, methods, is_tensor = types.field, types.methods, types.is_tensor
local set_metatable, get_metatable = debug.setmetatable, debug.getmetatable
local detach = tlua.detach

local M = {nn = {}}
local nn = M.nn
local map, result = records.map, records.result
local grad_names <const> = {weight = "gradWeight", bias = "gradBias"}
classes.root("nn", nn)

-- Module
-- --------------------------------------------------------------------------------------------

local Module = classes.class "nn.Module"
M.Module = Module

function Module:__init()
   self.gradInput = torch.Tensor()
   self.output = torch.Tensor()
   self._type = torch.getdefaulttensortype()
end

--- Raises an error if the input of a module or a criterion is neither a tensor nor a table. Classes
--- with the field takes_any take every value but nil.
function M.check_input(self, input)
   if input == nil then tlua.raise(classes.type(self) .. ": expected an input, got nil") end
   if type(input) ~= "table" and not is_tensor(input) and not self.takes_any then
      args.refuse(classes.type(self), "input", "a tensor or a table of tensors", input)
   end
end

--- Raises an error unless an argument of an object's constructor is a module or, with
--- `of_criterion`, a criterion.
function M.check_part(self, what, value, of_criterion)
   if classes.isTypeOf(value, of_criterion and "nn.Criterion" or "nn.Module") then return end
   args.refuse(classes.type(self), what, of_criterion and "a criterion" or "a module", value)
end

--- Raises an error unless an argument of a constructor is an integer of at least `least`.
function M.check_integer(name, what, value, least)
   if math.type(value) and math.tointeger(value) and value >= least then return end
   args.refuse("nn." .. name, what, ("an integer of at least %d"):format(least), value)
end

-- Computes the output and records the call, so that gradients can be computed. In evaluation mode,
-- the call is recorded later, when a program asks for gradients.
function Module:updateOutput(input)
   if not self.compute then return self.output end
   M.check_input(self, input)
   if self.prepare then self:prepare(input) end
   if self.train == false then
      records.forget(self)
      local leaves = map(function(x) return is_tensor(x) and detach(x) or x end, input)
      local weight, bias = rawget(self, "weight"), rawget(self, "bias")
      self.output = map(result, self.compute(self, leaves, weight and detach(weight), bias
         and detach(bias)))
   else
      self.output = map(result, records.record(self, input).output)
   end
   return self.output
end

function Module:updateGradInput(input, gradOutput)
   if not self.compute then return self.gradInput end
   M.check_input(self, input)
   self.gradInput = records.grad_input(self, input, gradOutput)
   return self.gradInput
end

function Module:accGradParameters(input, gradOutput, scale)
   if not self.compute or not records.has_parameters(self) then return end
   M.check_input(self, input)
   records.add_gradients(self, input, gradOutput, scale or 1)
end

--- Subtracts the gradients of the parameters, times `rate`, from the parameters. If a class defines
--- accGradParameters itself, accGradParameters is called with the scale -rate while the fields
--- gradWeight and gradBias hold the weight and the bias, so it changes the parameters themselves.
function Module:accUpdateGradParameters(input, gradOutput, rate)
   self:defaultAccUpdateGradParameters(input, gradOutput, rate)
end

-- Raises an error for a rate that is not a number. It is called before a method changes anything.
local function check_rate(self, method, rate)
   if type(rate) ~= "number" then
      tlua.raise(("%s: %s: rate: expected a number, got %s"):format(classes.type(self), method,
         type(rate)))
   end
end

function Module:defaultAccUpdateGradParameters(input, gradOutput, rate)
   check_rate(self, "accUpdateGradParameters", rate)
   if self.compute then
      return records.update_parameters(self, input, gradOutput, -rate)
   end
   local weight_grad, bias_grad = self.gradWeight, self.gradBias
   self.gradWeight, self.gradBias = self.weight, self.bias
   local good, problem = pcall(self.accGradParameters, self, input, gradOutput, -rate)
   self.gradWeight, self.gradBias = weight_grad, bias_grad
   if not good then error(problem, 0) end
end

--- Subtracts the gradients of the parameters, times `rate`, from the parameters, like
--- accUpdateGradParameters. In addition, it leaves the gradients in the fields gradWeight and
--- gradBias.
function Module:sharedAccUpdateGradParameters(input, gradOutput, rate)
   if not self:parameters() then return end
   check_rate(self, "sharedAccUpdateGradParameters", rate)
   self:zeroGradParameters()
   self:accGradParameters(input, gradOutput, 1)
   self:updateParameters(rate)
end

--- Computes the gradients of inputs and parameters. This takes one backward pass, unless the class
--- overrides updateGradInput or accGradParameters; then both methods are called.
function Module:backward(input, gradOutput, scale)
   local own = self.updateGradInput ~= Module.updateGradInput
      or self.accGradParameters ~= Module.accGradParameters
   if own or not self.compute then
      self:updateGradInput(input, gradOutput)
      self:accGradParameters(input, gradOutput, scale or 1)
      return self.gradInput
   end
   M.check_input(self, input)
   self.gradInput = records.backward(self, input, gradOutput, scale or 1)
   return self.gradInput
end
records.join(Module)

function Module:backwardUpdate(input, gradOutput, rate)
   self:updateGradInput(input, gradOutput)
   self:accUpdateGradParameters(input, gradOutput, rate)
   return self.gradInput
end

function Module:forward(input) return self:updateOutput(input) end

function Module:__call__(input, gradOutput)
   self:forward(input)
   if gradOutput then
      self:backward(input, gradOutput)
      return self.output, self.gradInput
   end
   return self.output
end

-- Parameters
-- ------------------------------------------------------------------------------------------

function Module:parameters()
   local weights, grads = {}, {}
   for _, name in ipairs {"weight", "bias"} do
      if is_tensor(self[name]) then
         weights[#weights + 1], grads[#grads + 1] = self[name], self[grad_names[name]]
      end
   end
   if #weights > 0 then return weights, grads end
end

function Module:zeroGradParameters()
   local _, grads = self:parameters()
   for _, g in ipairs(grads or {}) do methods.zero_(g) end
end

function Module:updateParameters(rate)
   check_rate(self, "updateParameters", rate)
   local weights, grads = self:parameters()
   for i, w in ipairs(weights or {}) do tlua.add_(w, grads[i], {alpha = -rate}) end
end

-- Returns, for each storage, the intervals of positions that tensors occupy in it. Overlapping
-- intervals are merged.
local function intervals_of(tensors)
   local order, by_key, seen = {}, {}, {}
   for _, x in ipairs(tensors) do
      if methods.numel(x) > 0 and not seen[x] then
         seen[x] = true
         local first = methods.storage_offset(x)
         local last = first
         for d, size in ipairs(field(x,
            "shape")) do last = last + (size - 1) * methods.stride(x)[d] end
         local key = types.storage_key(x)
         if not by_key[key] then
            by_key[key] = {}
            order[#order + 1] = by_key[key]
         end
         table.insert(by_key[key], {first = first, last = last, source = x, users = {x},
            rank = #by_key[key]})
      end
   end
   local merged = {}
   for _, list in ipairs(order) do
      table.sort(list, function(a, b) return a.first < b.first or a.first == b.first
         and a.rank < b.rank end)
      local open
      for _, part in ipairs(list) do
         if open and part.first <= open.last then
            open.last = math.max(open.last, part.last)
            table.insert(open.users, part.source)
         else
            open = part
            merged[#merged + 1] = open
         end
      end
   end
   return merged
end

-- Moves tensors into one vector, and returns the vector. Afterwards the tensors are views of it.
local function flatten_tensors(tensors)
   if #tensors == 0 then return torch.Tensor() end
   local kind = types.kind_of(tensors[1])
   for _, x in ipairs(tensors) do
      if types.kind_of(x) ~= kind then
         tlua.raise "getParameters: expected parameters of one type"
      end
   end
   local merged, total = intervals_of(tensors), 0
   for _, part in ipairs(merged) do total = total + part.last - part.first + 1 end
   local flat, at = tlua.empty({total}, types.place(kind)), 0
   for _, part in ipairs(merged) do
      local n = part.last - part.first + 1
      methods.copy_(tlua.narrow(flat, 1, at + 1, n),
         tlua.narrow(tlua._storage_view(part.source, false), 1, part.first + 1, n))
      for _, x in ipairs(part.users) do
         methods.set_(x, flat, at + methods.storage_offset(x) - part.first, field(x, "shape"),
            methods.stride(x))
      end
      at = at + n
   end
   return set_metatable(flat, kind.tensor)
end

--- Moves all parameters into one vector and their gradients into another vector, and returns both
--- vectors.
function Module:getParameters()
   local weights, grads = self:parameters()
   return flatten_tensors(weights or {}), flatten_tensors(grads or {})
end
Module.flatten = flatten_tensors

-- Makes the named fields of this module share memory with the fields of the same names in another
-- module.
function Module:share(other, ...)
   for _, name in ipairs {...} do
      if is_tensor(self[name]) then methods.set_(self[name], other[name]) end
   end
   return self
end

--- Returns a copy of the module. The fields whose names are given share memory with the original.
function Module:clone(...)
   local made = copying.copy(self)
   if select("#", ...) > 0 then made:share(self, ...) end
   return made
end

-- Files
-- ---------------------------------------------------------------------------------------------

local function check_file(self, method, file)
   if type(file) ~= "table" or not file.readObject then
      tlua.raise(("%s: %s: file: expected a file of Torch7, got %s"):format(classes.type(self),
         method, type(file)))
   end
end

--- Writes the fields to a file, for classes whose own `write` calls this method. Torch7 needs the
--- fields output and gradInput when it reads the file. The fast passes of graphs may have freed
--- both, so empty tensors are written in their place.
function Module:write(file)
   check_file(self, "write", file)
   local fields, name = {}, classes.type(self)
   for key, value in next, self do fields[key] = value end
   local kind = types.kind_named(self._type)
   if kind and not fields.output then fields.output = torch.Tensor():type(self._type) end
   if kind and not fields.gradInput then
      local takes_table = name:find "Table$" and name ~= "nn.SplitTable"
      fields.gradInput = takes_table and {} or torch.Tensor():type(self._type)
   end
   file:writeObject(fields)
end

--- Reads the fields from a file, for classes whose own method `read` calls this method.
function Module:read(file)
   check_file(self, "read", file)
   local fields = file:readObject()
   if type(fields) ~= "table" or fields == self then
      tlua.raise(("%s: read: expected a table of fields, got %s"):format(classes.type(self),
         fields == self and "the object" or type(fields)))
   end
   for key, value in next, fields do rawset(self, key, value) end
end

-- Types
-- ---------------------------------------------------------------------------------------------

function Module:type(name, memo)
   if name == nil then return self._type end
   local kind = types.kind_named(name)
   if not kind then tlua.raise("type: there is no tensor type " .. tostring(name)) end
   copying.convert(self, kind, memo)
   self:apply(function(module) module._type = name end)
   return self
end

for method, name in pairs {float = "Float", double = "Double", half = "Half", cuda = "Cuda"} do
   Module[method] = function(self, ...) return self:type(("torch.%sTensor"):format(name), ...) end
end

-- Modes
-- ---------------------------------------------------------------------------------------------

function Module:training() self.train = true end
function Module:evaluate() self.train = false end

function Module:clearState()
   records.forget(self)
   for _, name in ipairs {"output", "gradInput"} do
      local value = self[name]
      if is_tensor(value) then
         self[name] = value.new()
      elseif type(value) == "table" then
         self[name] = {}
      end
   end
   return self
end

function Module:reset() end

-- Trees of modules
-- -----------------------------------------------------------------------------------

function Module:apply(fn)
   fn(self)
   for _, module in ipairs(rawget(self, "modules") or {}) do module:apply(fn) end
end

function Module:applyToModules(fn)
   for _, module in ipairs(rawget(self, "modules") or {}) do fn(module) end
end

function Module:replace(fn)
   local taken = fn(self)
   for i, module in ipairs(rawget(self, "modules")
      or {}) do self.modules[i] = module:replace(fn) end
   return taken
end

function Module:findModules(name, container)
   container = container or self
   local found, containers = {}, {}
   local meta = classes.metatype(self)
   if meta and meta.__typename == name then found[1], containers[1] = self, container end
   for _, module in ipairs(rawget(self, "modules") or {}) do
      local inner, holders = module:findModules(name, self)
      for i, one in ipairs(inner) do
         found[#found + 1], containers[#containers + 1] = one, holders[i]
      end
   end
   return found, containers
end

function Module:listModules()
   local list, seen = {}, {}
   self:apply(function(module)
      if not seen[module] then
         seen[module] = true
         list[#list + 1] = module
      end
   end)
   return list
end

function Module:__tostring__()
   local describe = rawget(get_metatable(self), "describe") or self.describe
   return describe and describe(self) or classes.type(self)
end

-- Definitions
-- ----------------------------------------------------------------------------------------

-- Patterns of the names of fields that are integers, with the smallest value of each.
local integers <const> = {["^[kd][TWH]$"] = 1, ["FrameSize$"] = 1, ["Plane$"] = 1,
   ["^dilation[TWH]$"] = 1}

-- Returns the smallest integer that a field may be, or nil if it need not be an integer.
local function least_of(name)
   for pattern, least in pairs(integers) do
      if name:find(pattern) then return least end
   end
end

local constants = {["true"] = true, ["false"] = false}

-- Parses a text such as "kW kH dW=kW padW=0", a list of fields with optional defaults.
local function parse_fields(text)
   local list = {}
   for word in text:gmatch "%S+" do
      local name, default = word:match "^([^=]+)=(.+)$"
      list[#list + 1] = {name = name or word, default = default, needed = name == nil,
         least = least_of(name or word)}
   end
   return list
end

local function default_of(self, text)
   if constants[text] ~= nil then return constants[text] end
   if text == "nil" then return nil end
   if text:find "^%a" then return self[text] end
   return tonumber(text)
end

-- Returns a method __init that sets the fields in `text`.
local function init_of(name, parent, text)
   local list = parse_fields(text)
   return function(self, ...)
      parent.__init(self)
      for i, entry in ipairs(list) do
         local value = select(i, ...)
         if value == nil then
            if entry.needed then
               tlua.raise(("nn.%s: %s: expected a value, got nil"):format(name, entry.name))
            end
            value = default_of(self, entry.default)
         end
         if entry.least then M.check_integer(name, entry.name, value, entry.least) end
         self[entry.name] = value
      end
   end
end

--- Defines a layer, a class whose name begins with "nn.".
---@param name string
---@param fields string|fun(self: table, ...)  the names of its arguments, or a constructor,
--- which is called after Module's constructor
---@param compute? fun(self: table, input: any, weight: Tensor?, bias: Tensor?): any
---@param parent? string
---@return table class
function M.layer(name, fields, compute, parent)
   local class, above = classes.class("nn." .. name, parent or "nn.Module")
   if type(fields) == "string" then
      class.__init = init_of(name, above, fields)
   elseif fields then
      class.__init = function(self, ...)
         Module.__init(self)
         fields(self, ...)
      end
   end
   class.compute = compute
   return class
end

--- Sets a layer's parameters to new tensors of the given sizes, with tensors for their gradients.
--- `fan` is the number of inputs of each output; `reset` draws smaller parameters if it is larger.
function M.parameters(self, weight, bias, fan)
   if weight then
      self.weight, self.gradWeight = torch.Tensor(table.unpack(weight)),
         torch.Tensor(table.unpack(weight)):zero()
   end
   if bias then
      self.bias, self.gradBias = torch.Tensor(table.unpack(bias)),
         torch.Tensor(table.unpack(bias)):zero()
   end
   self:reset(nil, fan)
end

--- Returns a method `reset` that draws parameters from a uniform distribution. By default its
--- bounds are +-1/sqrt(fan_of(self)). If `stdv` is given, it is the standard deviation of the
--- distribution.
function M.reset(fan_of)
   return function(self, stdv)
      local bound = stdv and stdv * math.sqrt(3) or 1 / math.sqrt(fan_of(self))
      if self.weight then self.weight:uniform(-bound, bound) end
      if self.bias then self.bias:uniform(-bound, bound) end
      return self
   end
end

return M
