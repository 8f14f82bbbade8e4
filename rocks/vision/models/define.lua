-- define.lua - functions that all families of models have in common: builders with checked options,
-- numbers of channels, and initial values.

local torch = require "tlua"
local args = require "tlua.args"

local nn = torch.nn

local M = {}

-- Returns whether two tables have the same keys.
local function same_keys(one, two)
   for key in pairs(one) do
      if two[key] == nil then return false end
   end
   for key in pairs(two) do
      if one[key] == nil then return false end
   end
   return true
end

-- Returns a state dict, given as a table or as the path of a file. Raises an error if the names in
-- the state count from 1, since weights have PyTorch's names, which count from 0.
local function read_weights(title, model, weights)
   local state = weights
   if type(weights) == "string" then
      local file, message = io.open(weights, "rb")
      if not file then torch.raise(("%s: weights: %s"):format(title, message)) end
      file:close()
      state = torch.load(weights)
   end
   if type(state) ~= "table" then
      args.refuse(title, "weights", "a file's path or a table of tensors", state)
   end
   if not same_keys(state, model:state_dict {names = "pytorch"})
         and same_keys(state, model:state_dict()) then
      torch.raise(title .. ': weights: expected names that count from 0, as PyTorch\'s do, got '
         .. 'those of tlua\'s state_dict(), which count from 1: pass them to '
         .. 'model:load_state_dict(state), or save state_dict {names = "pytorch"}')
   end
   return state
end

-- Returns the published weights that the option `weights` stands for, and sets the options that
-- depend on them. Returns nil for a file, a state dict or none.
local function published(title, name, given, options)
   if options.weights == nil then return nil end
   local published_weights = require "tlua.vision.models.weights"
   local set = published_weights.of_model(name)
   local found = set and published_weights.resolve(title, set, options.weights)
   if found then published_weights.prepare(title, found, given, options) end
   return found
end

-- Loads weights into a model: published ones, or those of the option `weights`.
local function load_weights(title, model, found, options)
   local state = found and require "tlua.vision.models.weights".state(title, found, options)
      or read_weights(title, model, options.weights)
   model:load_state_dict(state, {names = "pytorch"})
end

-- Maps builders to the names of their models.
local names = setmetatable({}, {__mode = "k"})

--- Returns the name of the model that a builder builds, or nil for other values.
---@param builder any
---@return string?
function M.name_of(builder) return names[builder] end

--- Returns a table of builders. Each builder takes a table of options and returns a model.
---@param defaults table<string, any>  the options of the family; num_classes = false means none
---@param rows table<string, table>  maps the name of a variant to a row, which is passed to make;
--- the row's field `defaults` has defaults that replace those of the family
---@param make fun(options: table, row: table, title: string): nn.Module
---@param further? boolean|table<string, boolean>  options without a default; true stands for
--- norm_layer
---@return table<string, function>
function M.builders(defaults, rows, make, further)
   local builders, others = {}, {weights = true}
   for key in pairs(further == true and {norm_layer = true} or further or {}) do
      others[key] = true
   end
   for name, row in pairs(rows) do
      local title, own = "vision.models." .. name, {num_classes = 1000}
      for _, given in ipairs {defaults, row.defaults or {}} do
         for key, value in pairs(given) do own[key] = value end
      end
      local has_classes = own.num_classes ~= false
      if not has_classes then own.num_classes = nil end
      builders[name] = function(options)
         if options == nil then options = {} end
         if type(options) ~= "table" or getmetatable(options) then
            args.refuse(title, "options", "a table such as {num_classes = 10}", options)
         end
         local given = options
         options = args.over_defaults(title, options, own, {}, others)
         local found = published(title, name, given, options)
         local classes = options.num_classes
         if has_classes and not (math.tointeger(classes) and classes >= 0) then
            args.refuse(title, "num_classes", "an integer of at least 0", classes)
         end
         local width, divisor = options.width_mult, options.round_nearest
         if width ~= nil and not (width > 0 and width < math.huge) then
            args.refuse(title, "width_mult", "a finite number above 0", width)
         end
         if divisor ~= nil and not (math.tointeger(divisor) and divisor >= 1) then
            args.refuse(title, "round_nearest", "an integer of at least 1", divisor)
         end
         local norm = options.norm_layer
         if norm ~= nil and not args.is_callable(norm) then
            args.refuse(title, "norm_layer", "a function that makes a layer", norm)
         end
         local model = make(options, row, title)
         if options.weights ~= nil then load_weights(title, model, found, options) end
         return model
      end
      names[builders[name]] = name
   end
   return builders
end

--- Rounds a number of channels to a multiple of `divisor`. The result is at most a tenth smaller
--- than `value`.
---@param value number
---@param divisor integer
---@return integer
function M.divisible(value, divisor)
   local rounded = math.max(divisor, math.floor(value + divisor / 2) // divisor * divisor)
   if rounded < 0.9 * value then rounded = rounded + divisor end
   return math.tointeger(rounded)
end

--- Returns a function that makes BatchNorm2d layers with the given options.
---@param options {eps: number?, momentum: number?}
---@return fun(channels: integer): nn.Module
function M.batch_norm(options)
   return function(channels) return nn.BatchNorm2d(channels, options) end
end

--- Calls one function for each convolution of a model and another for each linear layer, without
--- recording gradients. Biases become 0, unless the field `bias` is "keep".
---@param model nn.Module
---@param calls {conv: function?, linear: function?, bias: string?}
function M.initialize(model, calls)
   local is_kept = calls.bias == "keep"
   torch.no_grad(function()
      for _, layer in ipairs(model:modules()) do
         local kind = torch.type(layer)
         local call = (kind == "nn.Conv2d" or kind == "nn.Conv3d") and calls.conv
            or kind == "nn.Linear" and calls.linear
         if call then
            call(layer.weight, layer)
            if layer.bias and not is_kept then layer.bias:zero_() end
         end
      end
   end)
end

--- Fills the weight of a layer before a ReLU with normal random numbers, whose standard deviation
--- depends on the number of outputs.
---@param weight Tensor
function M.kaiming_fan_out(weight)
   nn.init.kaiming_normal_(weight, {mode = "fan_out", nonlinearity = "relu"})
end

--- Returns a function that fills a weight with normal random numbers of the given standard
--- deviation.
---@param std number
---@return fun(weight: Tensor)
function M.normal(std)
   return function(weight) nn.init.normal_(weight, 0, std) end
end

--- Returns a function that fills a weight with normal random numbers of the given standard
--- deviation, limited to the interval from -2 to 2.
---@param std number
---@return fun(weight: Tensor)
function M.truncated(std)
   return function(weight) nn.init.trunc_normal_(weight, 0, std, -2, 2) end
end

--- The method `forward` of several models: computes the features, their means over all pixels, and
--- then the classifier's output.
---@param self nn.Module
---@param input Tensor  (N, 3, H, W)
---@return Tensor  (N, num_classes)
function M.classify(self, input)
   return self.classifier(self.avgpool(self.features(input)):flatten(2))
end

return M
