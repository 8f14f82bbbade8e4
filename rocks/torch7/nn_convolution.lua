-- nn_convolution.lua - Torch7's layers for sequences, images and volumes. Arguments are in Torch7's
-- order (width before height). Sizes of tensors are in the opposite order.

local tlua = require "tlua"
local args = require "tlua.args"
local torch = require "tlua.torch7.torch"
local types = require "tlua.torch7.types"
local base = require "tlua.torch7.Module"

local T, F = tlua, tlua.nn.functional
local field, methods, is_tensor = types.field, types.methods, types.is_tensor
local layer, parameters, nn = base.layer, base.parameters, base.nn

local function dims(x) return #field(x, "shape") end
local function shape(x) return field(x, "shape") end

local function row_fan(self) return self.weight:nElement() / self.weight:size(1) end

-- Calls fn with x as a batch. An x with only n dimensions is one example, so it becomes a batch of
-- size 1, and the result loses the batch dimension again.
local function batched(n, x, fn)
   if dims(x) == n + 1 then return fn(x) end
   if dims(x) ~= n then
      tlua.raise(("expected an input of %d or %d dimensions, got %d"):format(n, n + 1, dims(x)))
   end
   return T.squeeze(fn(T.unsqueeze(x, 1)), 1)
end

-- Defines a layer with the given fields. after(self) is called when the fields are set, and
-- computes further fields from them.
local function fields_then(name, fields, after, compute, parent)
   local class = layer(name, fields, compute, parent)
   local set = class.__init
   function class:__init(...)
      set(self, ...)
      if after then after(self) end
   end
   return class
end

local function without_bias(class)
   function class:noBias()
      self.bias, self.gradBias = nil, nil
      return self
   end
   return class
end

-- Time --------------------------------------------------------------------------------------------

local function over_time(x, fn)
   return batched(2, x, function(frames) return T.transpose(fn(T.transpose(frames, 2, 3)), 2,
      3) end)
end

fields_then("TemporalConvolution", "inputFrameSize outputFrameSize kW dW=1", function(self)
   parameters(self, {self.outputFrameSize, self.inputFrameSize * self.kW}, {self.outputFrameSize})
end, function(self, x, weight, bias)
   local kernel = T.transpose(T.reshape(weight,
      {self.outputFrameSize, self.kW, self.inputFrameSize}), 2, 3)
   return over_time(x, function(frames) return F.conv1d(frames, kernel, bias, self.dW) end)
end).reset = base.reset(row_fan)

fields_then("TemporalRowConvolution", "inputFrameSize kW dW=1 featFirst=false", function(self)
   parameters(self, {self.inputFrameSize, 1, self.kW}, {self.inputFrameSize})
end, function(self, x, weight, bias)
   local conv = function(frames) return F.conv1d(frames, weight, bias, self.dW, 0, 1,
      self.inputFrameSize) end
   return self.featFirst and batched(2, x, conv) or over_time(x, conv)
end).reset = base.reset(function(self) return self.kW end)

layer("TemporalMaxPooling", "kW dW=kW", function(self, x)
   return over_time(x, function(frames) return F.max_pool1d(frames, self.kW, self.dW) end)
end)

fields_then("TemporalSubSampling", "inputFrameSize kW dW=1", function(self)
   parameters(self, {self.inputFrameSize}, {self.inputFrameSize})
end, function(self, x, weight, bias)
   return over_time(x, function(frames)
      local sums = T.mul(F.avg_pool1d(frames, self.kW, self.dW), self.kW)
      return T.add(T.mul(sums, T.reshape(weight, {1, -1, 1})), T.reshape(bias, {1, -1, 1}))
   end)
end).reset = base.reset(function(self) return self.kW end)

-- TemporalDynamicKMaxPooling: keeps the k largest frames of each feature in time order.
layer("TemporalDynamicKMaxPooling", "minK factor=0", function(self, x)
   return batched(2, x, function(frames)
      local k = math.max(self.minK, math.ceil(self.factor * shape(frames)[2]))
      local _, at = T.topk(frames, k, 2)
      return T.gather(frames, 2, (T.sort(at, 2)))
   end)
end)

local Lookup = fields_then("LookupTable", "nIndex nOutput paddingValue=0 maxNorm=nil normType=2",
   function(self)
   parameters(self, {self.nIndex, self.nOutput})
end, function(self, x, weight)
   local padding = self.paddingValue
   return F.embedding(methods.to(x, "int64"), weight, padding and padding > 0 and padding or nil)
end)
function Lookup:reset(stdv) self.weight:normal(0, stdv or 1) end
function Lookup:prepare(input)
   if self.maxNorm then
      local used = T.unique(methods.to(T.flatten(input), "int64"))
      local rows = T.index_select(self.weight, 1, used)
      methods.index_copy_(self.weight, 1, used, T.renorm(rows, self.normType or 2, 1, self.maxNorm))
   end
end
function Lookup:setPadding(value)
   self.paddingValue = value
   return self
end
function Lookup:setMaxNorm(value)
   self.maxNorm = value
   return self
end
function Lookup:setNormType(value)
   self.normType = value
   return self
end

-- Convolutions ------------------------------------------------------------------------------------

-- Returns the values of the fields for a letter as text. For the letter "k" and the axes W and H
-- these are the fields "kW" and "kH".
local function numbers(self, letter, axes, separator)
   local list = {}
   for i, axis in ipairs(axes) do list[i] = ("%d"):format(self[letter .. axis] or 0) end
   return table.concat(list, separator)
end

-- Returns a text that describes the windows of a layer: kernel sizes, steps and padding. Steps of 1
-- are left out, unless `always` is true.
local function windows_text(self, axes, always)
   local text, zeros = numbers(self, "k", axes, "x"), numbers({}, "", axes, ",")
   local steps, padding = numbers(self, "d", axes, ","), numbers(self, "pad", axes, ",")
   local is_padded = padding ~= zeros
   if always or is_padded or steps ~= zeros:gsub("0", "1") then text = text .. ", " .. steps end
   return is_padded and text .. ", " .. padding or text
end

local across <const>, through <const> = {"W", "H"}, {"T", "W", "H"}

local function conv_describe(self)
   return ("%s(%d -> %d, %s)%s"):format(self.__typename, self.nInputPlane, self.nOutputPlane,
      windows_text(self, self.kT and through or across), self.bias and "" or " without bias")
end

local function planes(self)
   parameters(self, {self.nOutputPlane, self.nInputPlane, self.kH, self.kW}, {self.nOutputPlane})
end

local function spatial(self, x, weight, bias)
   weight = T.reshape(weight, {self.nOutputPlane, self.nInputPlane, self.kH, self.kW})
   return F.conv2d(x, weight, bias, {self.dH, self.dW},
      {self.padH or self.padding or 0, self.padW or self.padding or 0},
      {self.dilationH or 1, self.dilationW or 1})
end

local conv_fields <const> = "nInputPlane nOutputPlane kW kH dW=1 dH=1 padW=0 padH=padW"
for _, name in ipairs {"SpatialConvolution", "SpatialConvolutionMM"} do
   local class = without_bias(fields_then(name, conv_fields, planes, spatial))
   class.reset, class.describe = base.reset(row_fan), conv_describe
end
local Dilated = without_bias(fields_then("SpatialDilatedConvolution",
   conv_fields .. " dilationW=1 dilationH=dilationW", planes, spatial))
Dilated.reset, Dilated.describe = base.reset(row_fan), conv_describe

local full_fields <const> = conv_fields .. " adjW=0 adjH=0"
local Full = without_bias(fields_then("SpatialFullConvolution", full_fields, function(self)
   parameters(self, {self.nInputPlane, self.nOutputPlane, self.kH, self.kW}, {self.nOutputPlane})
end, function(self, x, weight, bias)
   local adjust = {self.adjH, self.adjW}
   if not is_tensor(x) then -- The input is {tensor, a tensor of the output's size}.
      local size = shape(x[2])
      x = x[1]
      local given = shape(x)
      for i, name in ipairs {"H", "W"} do
         local d = i - 3
         local plain = (given[#given + d + 1] - 1) * self["d" .. name] - 2 * self["pad"
            .. name] + self["k" .. name]
         adjust[i] = size[#size + d + 1] - plain
      end
   end
   return F.conv_transpose2d(x, weight, bias, {self.dH, self.dW}, {self.padH, self.padW}, adjust)
end))
Full.reset = base.reset(function(self) return self.nInputPlane * self.kH * self.kW end)
Full.describe = conv_describe

fields_then("SpatialDepthWiseConvolution", conv_fields, function(self)
   parameters(self, {self.nOutputPlane, self.nInputPlane, self.kH, self.kW},
      {self.nOutputPlane, self.nInputPlane})
end, function(self, x, weight, bias)
   local kernel = T.reshape(T.transpose(weight, 1, 2), {-1, 1, self.kH, self.kW})
   return F.conv2d(x, kernel, bias and T.reshape(T.t(bias), {-1}), {self.dH, self.dW},
      {self.padH, self.padW}, 1,
      self.nInputPlane)
end).reset = base.reset(row_fan)

-- Returns the output size of a layer that has a separate kernel for each output position.
local function out_size(input, kernel, step, pad) return (input + 2 * pad - kernel) // step + 1 end
fields_then("SpatialConvolutionLocal",
   "nInputPlane nOutputPlane iW iH kW kH dW=1 dH=1 padW=0 padH=padW",
   function(self)
      self.oW = out_size(self.iW, self.kW, self.dW, self.padW)
      self.oH = out_size(self.iH, self.kH, self.dH, self.padH)
      parameters(self, {self.oH, self.oW, self.nOutputPlane, self.nInputPlane, self.kH, self.kW},
         {self.nOutputPlane, self.oH, self.oW})
   end, function(self, x, weight, bias)
      return batched(3, x, function(pictures)
         local cells = F.unfold(pictures, {self.kH, self.kW}, 1, {self.padH, self.padW},
            {self.dH, self.dW})
         local kernels = T.reshape(weight, {self.oH * self.oW, self.nOutputPlane, -1})
         local made = T.einsum("nkl,lok->nol", cells, kernels)
         return T.add(T.reshape(made, {-1, self.nOutputPlane, self.oH, self.oW}), bias)
      end)
   end).reset = base.reset(function(self) return self.nInputPlane * self.kW * self.kH end)

-- nn.tables has functions that create tables of connections between planes. Such a table is a
-- tensor (n, 2). Each row has the index of an input plane and the index of an output plane.
nn.tables = {}
function nn.tables.full(nin, nout)
   local list = {}
   for to = 1, nout do
      for from = 1, nin do list[#list + 1] = {from, to} end
   end
   return torch.Tensor(list)
end
function nn.tables.oneToOne(n)
   local list = {}
   for i = 1, n do list[i] = {i, i} end
   return torch.Tensor(list)
end
function nn.tables.random(nin, nout, nto)
   local list = {}
   for to = 1, nout do
      local from = torch.randperm(nin)
      for i = 1, nto do list[#list + 1] = {from[(i - 1) % nin + 1], to} end
   end
   return torch.Tensor(list)
end

local function connected(name, conv, transposed)
   local class = layer(name, function(self, connTable, kW, kH, dW, dH)
      if not types.is_tensor(connTable) or connTable:dim() ~= 2 or connTable:size(2) ~= 2 then
         args.refuse("nn." .. name, "connTable", "a tensor (connections, 2)", connTable)
      end
      base.check_integer(name, "kW", kW, 1)
      base.check_integer(name, "kH", kH, 1)
      self.connTable, self.kW, self.kH, self.dW, self.dH = connTable, kW, kH, dW or 1, dH or 1
      self.nInputPlane = math.tointeger(connTable:select(2, 1):max())
      self.nOutputPlane = math.tointeger(connTable:select(2, 2):max())
      parameters(self, {connTable:size(1), kH, kW}, {self.nOutputPlane})
   end, function(self, x, weight, bias)
      local from, to = T.select(self.connTable, 2, 1), T.select(self.connTable, 2, 2)
      local rows, sizes = self.nOutputPlane, {self.nOutputPlane, self.nInputPlane, self.kH, self.kW}
      local place = T.add(T.mul(T.sub(to, 1), self.nInputPlane), from)
      if transposed then
         rows, sizes = self.nInputPlane, {self.nInputPlane, self.nOutputPlane, self.kH, self.kW}
         place = T.add(T.mul(T.sub(from, 1), self.nOutputPlane), to)
      end
      local all = T.zeros({rows * sizes[2], self.kH, self.kW}, {dtype = field(weight, "dtype"),
         device = field(weight, "device")})
      all = T.index_add(all, 1, methods.to(T.detach(place), "int64"), weight)
      return conv(x, T.reshape(all, sizes), bias, {self.dH, self.dW})
   end)
   class.reset = base.reset(function(self)
      return self.kW * self.kH * self.connTable:size(1) / self.nOutputPlane
   end)
end
connected("SpatialConvolutionMap", F.conv2d)
connected("SpatialFullConvolutionMap", F.conv_transpose2d, true)

local volume_fields <const> = [[nInputPlane nOutputPlane kT kW kH dT=1 dW=1 dH=1 padT=0 padW=padT
   padH=padW]]
local function volume(self)
   parameters(self, {self.nOutputPlane, self.nInputPlane, self.kT, self.kH, self.kW},
      {self.nOutputPlane})
end
local function volumetric(self, x, weight, bias)
   weight = T.reshape(weight, {self.nOutputPlane, self.nInputPlane, self.kT, self.kH, self.kW})
   return F.conv3d(x, weight, bias, {self.dT, self.dH, self.dW}, {self.padT, self.padH, self.padW},
      {self.dilationT or 1, self.dilationH or 1, self.dilationW or 1})
end
local Volume = without_bias(fields_then("VolumetricConvolution", volume_fields, volume, volumetric))
Volume.reset, Volume.describe = base.reset(row_fan), conv_describe
without_bias(fields_then("VolumetricDilatedConvolution",
   volume_fields .. " dilationT=1 dilationW=1 dilationH=1", volume,
      volumetric)).reset = base.reset(row_fan)
without_bias(fields_then("VolumetricFullConvolution", volume_fields .. " adjT=0 adjW=0 adjH=0",
   function(self)
   parameters(self, {self.nInputPlane, self.nOutputPlane, self.kT, self.kH, self.kW},
      {self.nOutputPlane})
end, function(self, x, weight, bias)
   return F.conv_transpose3d(x, weight, bias, {self.dT, self.dH, self.dW},
      {self.padT, self.padH, self.padW},
      {self.adjT, self.adjH, self.adjW})
end)).reset = base.reset(function(self) return self.nInputPlane * self.kT * self.kH * self.kW end)

-- Pooling -----------------------------------------------------------------------------------------

local function with_modes(class)
   function class:ceil()
      self.ceil_mode = true
      return self
   end
   function class:floor()
      self.ceil_mode = false
      return self
   end
   function class:setCountIncludePad()
      self.count_include_pad = true
      return self
   end
   function class:setCountExcludePad()
      self.count_include_pad = false
      return self
   end
   return class
end

-- Returns the values of a layer's fields for the given axes, for example {kH, kW} for the letter
-- "k".
local function sizes_of(self, letter, axes)
   local list = {}
   for i, axis in ipairs(axes) do
      list[i] = self[letter .. axis] or letter == "dilation" and 1 or 0
   end
   return list
end

local pictures <const>, volumes <const> = {"H", "W"}, {"T", "H", "W"}

local function pooling(name, fields, axes, pool)
   local class = with_modes(layer(name, fields, function(self, x)
      self.inputSize = torch.LongStorage(shape(x))
      return pool(self, x, sizes_of(self, "k", axes), sizes_of(self, "d", axes),
         sizes_of(self, "pad", axes),
         sizes_of(self, "dilation", axes))
   end))
   function class:describe()
      local windows = windows_text(self, axes == volumes and through or across, true)
      return ("%s(%s)"):format(self.__typename, windows)
   end
end

local function keep_indices(pool)
   return function(self, x, kernel, step, padding, dilation)
      local values, at = pool(x, kernel, step, padding, dilation, self.ceil_mode or false)
      self.indices = types.tag(at)
      return values
   end
end

local function average(pool)
   return function(self, x, kernel, step, padding)
      local y = pool(x, kernel, step, padding, self.ceil_mode or false,
         self.count_include_pad ~= false)
      if self.divide ~= false then return y end
      local n = 1
      for _, size in ipairs(kernel) do n = n * size end
      return T.mul(y, n)
   end
end

local pool_fields <const> = "kW kH dW=kW dH=kH padW=0 padH=0"
local cube_fields <const> = "kT kW kH dT=kT dW=kW dH=kH padT=0 padW=0 padH=0"
local max2, max3 = keep_indices(F.max_pool2d_with_indices), keep_indices(F.max_pool3d_with_indices)
pooling("SpatialMaxPooling", pool_fields, pictures, max2)
pooling("SpatialDilatedMaxPooling", pool_fields .. " dilationW=1 dilationH=1", pictures, max2)
pooling("SpatialAveragePooling", "kW kH dW=1 dH=1 padW=0 padH=0", pictures, average(F.avg_pool2d))
pooling("VolumetricMaxPooling", cube_fields, volumes, max3)
pooling("VolumetricDilatedMaxPooling", cube_fields .. " dilationT=1 dilationW=1 dilationH=1",
   volumes, max3)
pooling("VolumetricAveragePooling", cube_fields, volumes, average(F.avg_pool3d))
layer("SpatialLPPooling", "nInputPlane pnorm=2 kW=2 kH=2 dW=kW dH=kH", function(self, x)
   local powers = T.pow(x, self.pnorm)
   local sums = T.mul(F.avg_pool2d(powers, {self.kH, self.kW}, {self.dH, self.dW}),
      self.kW * self.kH)
   return T.pow(sums, 1 / self.pnorm)
end)
layer("SpatialAdaptiveMaxPooling", "W H", function(self, x)
   return F.adaptive_max_pool2d(x, {self.H, self.W})
end)
layer("SpatialAdaptiveAveragePooling", "W H", function(self, x)
   return F.adaptive_avg_pool2d(x, {self.H, self.W})
end)

for name, entry in pairs {SpatialMaxUnpooling = {F.max_unpool2d, pictures},
   VolumetricMaxUnpooling = {F.max_unpool3d, volumes}} do
   layer(name, function(self, poolingModule)
      base.check_part(self, "poolingModule", poolingModule)
      self.pooling = poolingModule
   end, function(self, x)
      local pool, axes = self.pooling, entry[2]
      if not pool.inputSize or not pool.indices then
         tlua.raise(("nn.%s: poolingModule: expected a module with positions of maxima, after its "
            .. "forward, got %s"):format(name, tostring(pool)))
      end
      local size, output = pool.inputSize:totable(), {}
      for i = 1, #axes do output[i] = size[#size - #axes + i] end
      return entry[1](x, T.detach(pool.indices), sizes_of(pool, "k", axes),
         sizes_of(pool, "d", axes),
         sizes_of(pool, "pad", axes), output)
   end)
end

local function fractional(name, n, pool)
   local class = layer(name, function(self, ...)
      local list = {...}
      for i = 1, 2 * n do
         if type(list[i]) ~= "number" or list[i] ~= list[i] or list[i] <= 0 then
            args.refuse("nn." .. name, ("argument %d"):format(i), "a number above 0", list[i])
         end
      end
      self.pool, self.out = table.move(list, 1, n, 1, {}), table.move(list, n + 1, 2 * n, 1, {})
      self.ratio = self.out[1] < 1
   end, function(self, x)
      local function reversed(values)
         local made = {}
         for i = 1, n do made[i] = values[n + 1 - i] end
         if n == 3 then made[1], made[2], made[3] = values[1], values[3], values[2] end
         return made
      end
      local single = dims(x) == n + 1
      local pictures_of = single and T.unsqueeze(x, 1) or x
      local options = {_random_samples = methods.to(T.detach(self.randomSamples),
         {dtype = field(x, "dtype"), device = field(x, "device")})}
      options[self.ratio and "output_ratio" or "output_size"] = reversed(self.out)
      local y = pool(pictures_of, reversed(self.pool), options)
      return single and T.squeeze(y, 1) or y
   end)
   function class:prepare(input)
      if self.fixed and self.randomSamples then return end
      local size = shape(input)
      local single = #size == n + 1
      self.randomSamples = types.tag(T.rand({single and 1 or size[1], size[#size - n], n},
         {dtype = "float64", device = "cpu"}))
   end
   function class:fixPoolingRegions(value)
      self.fixed = value == nil or value
      return self
   end
end
fractional("SpatialFractionalMaxPooling", 2, F.fractional_max_pool2d)
fractional("VolumetricFractionalMaxPooling", 3, F.fractional_max_pool3d)

fields_then("SpatialSubSampling", "nInputPlane kW kH dW=1 dH=1", function(self)
   parameters(self, {self.nInputPlane}, {self.nInputPlane})
end, function(self, x, weight, bias)
   return batched(3, x, function(all)
      local sums = T.mul(F.avg_pool2d(all, {self.kH, self.kW}, {self.dH, self.dW}),
         self.kW * self.kH)
      return T.add(T.mul(sums, T.reshape(weight, {1, -1, 1, 1})), T.reshape(bias, {1, -1, 1, 1}))
   end)
end).reset = base.reset(function(self) return self.kW * self.kH end)

-- Sizes -------------------------------------------------------------------------------------------

layer("SpatialUpSamplingNearest", "scale_factor", function(self, x)
   return batched(3, x, function(all)
      return F.interpolate(all, {scale_factor = self.scale_factor, mode = "nearest"})
   end)
end)
layer("SpatialUpSamplingBilinear", function(self, scale)
   if type(scale) == "table" then
      self.oheight, self.owidth = scale.oheight, scale.owidth
   else
      self.scale_factor = scale
   end
end, function(self, x)
   return batched(3, x, function(all)
      local size = shape(all)
      local h, w = self.oheight, self.owidth
      if self.scale_factor then
         h, w = size[3] * self.scale_factor, size[4] * self.scale_factor
      end
      return F.interpolate(all, {size = {h, w}, mode = "bilinear", align_corners = true})
   end)
end)

-- Defines a layer that pads images. A negative amount removes pixels at this side.
local function padding(name, mode)
   layer(name, "pad_l pad_r=pad_l pad_t=pad_l pad_b=pad_l", function(self, x)
      local amounts = {self.pad_l, self.pad_r, self.pad_t, self.pad_b}
      return batched(3, x, function(all) return F.pad(all, amounts, mode) end)
   end)
end
padding("SpatialZeroPadding", "constant")
padding("SpatialReflectionPadding", "reflect")
padding("SpatialReplicationPadding", "replicate")
layer("VolumetricReplicationPadding",
   "pleft pright=pleft ptop=pleft pbottom=pleft pfront=pleft pback=pleft",
   function(self, x)
      return batched(4, x, function(all)
         return F.pad(all, {self.pleft, self.pright, self.ptop, self.pbottom, self.pfront,
            self.pback}, "replicate")
      end)
   end)

-- Normalizations over neighbours ------------------------------------------------------------------

layer("SpatialCrossMapLRN", "size alpha=0.0001 beta=0.75 k=1", function(self, x)
   return batched(3, x, function(all)
      return F.local_response_norm(all, self.size, self.alpha, self.beta, self.k)
   end)
end)

-- Returns the mean over neighbouring pixels and planes, weighted by the kernel. At the border, only
-- neighbours inside the image count.
local function mean_around(self, x)
   local kernel = T.detach(self.kernel)
   if dims(kernel) == 1 then kernel = T.outer(kernel, kernel) end
   kernel = methods.to(kernel, field(x, "dtype"))
   local size = shape(kernel)
   kernel = T.div(kernel, T.mul(T.sum(kernel), self.nInputPlane))
   kernel = methods.expand(T.reshape(kernel, {1, 1, size[1], size[2]}),
      {1, self.nInputPlane, size[1], size[2]})
   local around = {size[1] // 2, size[2] // 2}
   local inside = F.conv2d(T.ones_like(T.narrow(x, 1, 1, 1)), kernel, nil, 1, around)
   return T.div(F.conv2d(x, kernel, nil, 1, around), inside)
end
local function subtract(self, x) return T.sub(x, mean_around(self, x)) end
local function divide(self, x)
   local deviation = T.sqrt(mean_around(self, T.square(x)))
   deviation = F.threshold(deviation, self.threshold, self.thresval)
   return T.div(x, deviation)
end
local function neighbours(name, fn)
   layer(name, function(self, nInputPlane, kernel, threshold, thresval)
      self.nInputPlane, self.kernel = nInputPlane or 1, kernel or torch.Tensor(9, 9):fill(1)
      self.threshold = threshold or 1e-4
      self.thresval = thresval or self.threshold
   end, function(self, x)
      return batched(3, x, function(all) return fn(self, all) end)
   end)
end
neighbours("SpatialSubtractiveNormalization", subtract)
neighbours("SpatialDivisiveNormalization", divide)
neighbours("SpatialContrastiveNormalization",
   function(self, x) return divide(self, subtract(self, x)) end)
