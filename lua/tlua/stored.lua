-- stored.lua - operators of tensors whose dtypes have no kernels: float8, unsigned integers of 16
-- to 64 bits and complex32 (TL_STORED_DTYPES in tlua.h). An operator that does not take such a
-- dtype refuses its arguments, and the binding then calls the function that this module returns,
-- with the operator's name and the arguments. Which operators take which dtypes is PyTorch's rule.
--
--    moves     operators that move elements: they run on integers of the same width, whose bits
--              are those of the elements
--    floats    operators of float8: they compute in float32 and round the result
--    wholes    operators of unsigned integers: they compute in wider integers, or in int64 with the
--              bits of uint64
--
-- The few operators of complex32 compute in complex64.

local torch = require "tlua"
local args = require "tlua.args"

local bits_of <const> = {
   float8_e4m3fn = "uint8", float8_e5m2 = "uint8", float8_e4m3fnuz = "uint8",
   float8_e5m2fnuz = "uint8", float8_e8m0fnu = "uint8", uint16 = "int16", uint32 = "int32",
   uint64 = "int64", complex32 = "int32",
}
local wider <const> = {uint16 = "int32", uint32 = "int64", uint64 = "int64"}
local lowest <const> = math.mininteger

local function set(words)
   local found = {}
   for word in words:gmatch "%S+" do found[word] = true end
   return found
end

-- Maps each operator to the positions of its arguments that contain elements.
local moves <const> = {
   cat = {1}, concat = {1}, concatenate = {1}, stack = {1}, hstack = {1}, vstack = {1},
   dstack = {1}, row_stack = {1}, column_stack = {1}, where = {2, 3}, flip = {1}, fliplr = {1},
   flipud = {1}, roll = {1}, rot90 = {1}, ["repeat"] = {1}, tile = {1}, repeat_interleave = {1},
   index_select = {1}, index = {1}, index_put = {1, 3}, index_put_ = {1, 3}, masked_select = {1},
   diag = {1}, diagflat = {1}, diag_embed = {1}, slice_scatter = {1, 2}, select_scatter = {1, 2},
   pad = {1, 4}, constant_pad_nd = {1, 3}, embedding = {2}, unsafe_chunk = {1},
   unsafe_split = {1}, tensor_split = {1}, hsplit = {1}, vsplit = {1}, dsplit = {1},
   broadcast_tensors = {1}, atleast_1d = {1}, atleast_2d = {1}, atleast_3d = {1},
   fill_diagonal_ = {1, 2}, meshgrid = {1}, positive = {1},
}
-- Maps operators that count as moving elements for unsigned integers only to the positions of their
-- arguments that contain elements.
local whole_moves <const> = {
   gather = {1}, scatter = {1, 4}, scatter_ = {1, 4}, take_along_dim = {1},
}
-- Maps operators to the positions of their arguments that contain indices, labels or counts, which
-- are not converted.
local positions_at <const> = {
   gather = {3}, scatter = {3}, scatter_add = {3}, scatter_reduce = {3}, take = {2}, put = {2},
   take_along_dim = {2}, index = {2}, index_select = {3}, index_add = {3}, index_copy = {3},
   index_fill = {3}, index_put = {2}, index_reduce = {3}, embedding = {1}, embedding_bag = {1, 3},
   cross_entropy = {2}, nll_loss = {2}, one_hot = {1}, bincount = {1}, repeat_interleave = {2},
   tensor_split = {2}, unravel_index = {1},
}
local shares_first <const> = set [[cat concat concatenate stack hstack vstack dstack row_stack
   column_stack]]

local same_bits <const> = set [[eq ne mul bitwise_and bitwise_or bitwise_xor where]]
local ordered <const> = set [[clamp clamp_min clamp_max maximum minimum max min fmax fmin sort
   argsort msort unique unique_consecutive]]
local sums <const> = set [[sum nansum prod cumsum cumprod]]
local unchanged <const> = set "ceil floor round trunc relu nan_to_num"
local tests <const> = set [[all any count_nonzero isfinite isinf isnan isneginf isposinf isreal
   signbit is_nonzero]]
local as_floats <const> = set [[acos acosh asin asinh atan atanh cos cosh sin sinh tan tanh exp exp2
   expm1 log log10 log1p log2 sqrt rsqrt reciprocal sigmoid erf erfc erfinv digamma lgamma i0 sinc
   deg2rad rad2deg logit angle polygamma mvlgamma div true_divide atan2 copysign xlogy ldexp
   logsumexp]]
local half_complex <const> = set [[add sub mul neg conj conj_physical]]
local half_complex_tests <const> = set [[eq ne isnan isinf isfinite isreal abs]]
local close <const> = set "isclose allclose equal"
local float_tests <const> = set [[eq ne all any count_nonzero isfinite isinf isnan isreal is_nonzero
   equal]]
local float_products <const> = set "mul mm matmul inner linear"

local function is_stored(value)
   return torch.is_tensor(value) and bits_of[value.dtype] ~= nil
end

-- Calls visit for the tensors among the arguments, which may be in lists.
local function each(arguments, visit)
   for i = 1, arguments.n do
      local value = arguments[i]
      if torch.is_tensor(value) then
         visit(value)
      elseif type(value) == "table" then
         for key, item in pairs(value) do
            if torch.is_tensor(item) then visit(item, key) end
         end
      end
   end
end

local function refuse(name, dtype)
   local to = bits_of[dtype] == "uint8" and "float32" or "int64"
   if dtype == "complex32" then to = "complex64" end
   torch.raise(("%s: not implemented for '%s'; convert the tensor, as in x:to \"%s\"")
      :format(name, dtype, to))
end

-- Returns the function or the method of an operator.
local function function_of(name)
   if not name:find(".", 1, true) then return rawget(torch, name) or torch.Tensor[name] end
   local found = torch
   for part in name:gmatch "[^.]+" do found = found[part] end
   return found
end

-- Returns a copy of the arguments in which fn(x) replaces each tensor and number x at the positions
-- in `positions`, or at all positions if it is nil. A list of tensors is mapped item by item.
local function map(arguments, positions, fn)
   local made = {n = arguments.n}
   for i = 1, arguments.n do
      local value = arguments[i]
      local chosen = not positions or positions[i]
      if chosen and (torch.is_tensor(value) or type(value) == "number") then
         made[i] = fn(value)
      elseif chosen and type(value) == "table" and torch.is_tensor(value[1]) then
         made[i] = {}
         for k, item in ipairs(value) do made[i][k] = fn(item) end
      else
         made[i] = value
      end
   end
   return made
end

local function positions_of(list, n)
   local chosen = {}
   for _, i in ipairs(list) do
      chosen[i] = true
      -- tensors may be given one by one instead of in a list
      for k = i, #list == 1 and n or i do chosen[k] = true end
   end
   return chosen
end

-- Applies fn to each tensor among the results.
local function convert_results(fn, ...)
   local results = table.pack(...)
   for i = 1, results.n do
      local value = results[i]
      if torch.is_tensor(value) then
         results[i] = fn(value)
      elseif type(value) == "table" then
         for k, item in ipairs(value) do value[k] = fn(item) end
      end
   end
   return table.unpack(results, 1, results.n)
end

-- Returns the dtype to which type promotion converts the tensors among the arguments.
local function common_dtype(name, arguments)
   local function promoted(a, b)
      if not a then return b end
      local ok, dtype = pcall(torch.promote_types, a, b)
      return ok and dtype or torch.raise((dtype:gsub("^.-promote_types", name)))
   end
   local dims, single
   each(arguments, function(t)
      local own = t.dtype
      if t:dim() > 0 then
         dims = promoted(dims, own)
      else
         single = promoted(single, own)
      end
   end)
   local dtype = dims or single
   if dims and single then
      dtype = torch.result_type(torch.empty({1}, {dtype = dims}), torch.empty({}, {dtype = single}))
   end
   local number
   for i = 1, arguments.n do
      if math.type(arguments[i]) == "float" and (i == 2 or name:find "^clamp" and i == 3) then
         number = true
      end
   end
   if number and bits_of[dtype] ~= "uint8" then
      dtype = torch.result_type(torch.empty({1}, {dtype = dtype}), 1.5)
   end
   return dtype
end

local function move(name, plain, positions, dtype, arguments)
   local bits = bits_of[dtype]
   local function to_bits(value)
      if type(value) == "number" then
         -- Beside a list of tensors, a number is a dimension, which is not converted.
         return shares_first[plain] and value
            or torch.full({}, value, {dtype = dtype}):view(bits):item()
      end
      if value.dtype ~= dtype then
         torch.raise(("%s: expected tensors of one dtype, got %s and %s"):format(name, dtype,
            value.dtype))
      end
      return value:view(bits)
   end
   local function back(value) return value.dtype == bits and value:view(dtype) or value end
   local chosen = positions_of(positions, shares_first[plain] and arguments.n or 1)
   local made = map(arguments, chosen, to_bits)
   return convert_results(back, function_of(name)(table.unpack(made, 1, made.n)))
end

-- Calls an operator with a copy of the arguments in which fn(x) replaces each tensor x, and each
-- number x at a position in the set `numbers`.
local function call(name, arguments, fn, numbers)
   local chosen = {}
   for i = 1, arguments.n do chosen[i] = torch.is_tensor(arguments[i]) or numbers and numbers[i] end
   local made = map(arguments, chosen, fn)
   return function_of(name)(table.unpack(made, 1, made.n))
end

-- Runs an operator on tensors of a float8 dtype: computes in float32, and rounds floating-point
-- results to `dtype`.
local function compute_float(full, name, dtype, arguments)
   local function widen(value)
      if type(value) == "number" then
         return torch.full({}, value, {dtype = "float64"}):to(dtype):to "float32":item()
      end
      return value:to(dtype):to "float32"
   end
   if float_tests[name] then
      return call(full, arguments, widen, {[2] = name == "eq" or name == "ne"})
   end
   local scalar = dtype == "float8_e8m0fnu"
   if name == "abs" and not scalar then return call(full, arguments, widen):to(dtype) end
   local products = float_products[name] and not (scalar and name ~= "mul")
   if products and is_stored(arguments[1]) and is_stored(arguments[2]) then
      return call(full, arguments, widen):to(dtype)
   end
   refuse(full, dtype)
end

-- Runs an operator on tensors of complex32: computes in complex64. Only the few operators that
-- PyTorch has for complex32 are accepted.
local function compute_half_complex(full, name, dtype, arguments)
   local result = half_complex[name] and dtype or name == "abs" and "float16"
   if not result and not half_complex_tests[name] then refuse(full, dtype) end
   local value = call(full, arguments, function(t) return t:to "complex64" end)
   return result and value:to(result) or value
end

-- Runs an operator on tensors of an unsigned integer dtype: computes in wider integers or, for
-- uint64, in int64. Functions of real numbers (as_floats) compute in the default dtype, and isclose
-- and the like in float64.
local function compute_whole(full, name, dtype, arguments)
   local wide = wider[dtype]
   local flips = dtype == "uint64" and ordered[name]
   local widen
   function widen(value)
      if type(value) == "number" then
         if ordered[name] and value < 0 then
            torch.raise(("%s: %s does not fit in a tensor of dtype %s"):format(full, value, dtype))
         end
         return widen(torch.full({}, value, {dtype = dtype})):item()
      end
      value = value:to(dtype):to(wide)
      return flips and value:bitwise_xor(lowest) or value
   end
   local function back(value)
      if value.dtype ~= wide then return value end
      if flips then value = value:bitwise_xor(lowest) end
      return value:to(dtype)
   end
   if unchanged[name] then return arguments[1]:clone() end
   if sums[name] then
      return call(full, arguments, function(t) return t:to "int64" end)
   end
   if tests[name] then return call(full, arguments, function(t) return t:to(wide) end) end
   if close[name] then
      return call(full, arguments, function(t) return t:to "float64" end)
   end
   if as_floats[name] then
      local floating = torch.get_default_dtype()
      return call(full, arguments, function(t) return is_stored(t) and t:to(floating) or t end)
   end
   if same_bits[name] or ordered[name] then
      if (name == "max" or name == "min") and not torch.is_tensor(arguments[2]) then
         refuse(full, dtype)
      end
      local numbers = {[2] = name ~= "sort" and name ~= "argsort" and not name:find "unique",
                       [3] = name == "clamp"}
      if name == "sort" or name == "argsort" or name == "unique" then
         local first, second, third = call(full, arguments, widen, {})
         if name == "argsort" then return first end
         return back(first), second, third
      end
      return convert_results(back, call(full, arguments, widen, numbers))
   end
   refuse(full, dtype)
end

local function compute(name, arguments)
   local first
   each(arguments, function(t, key)
      if key == "out" then refuse(name .. " with out", t.dtype) end
      if bits_of[t.dtype] then first = first or t.dtype end
   end)
   each(arguments, function(t)
      if t.requires_grad and torch.is_grad_enabled() and bits_of[t.dtype] then
         torch.raise(("%s: gradients of %s pass through conversions and views alone; call "
            .. "detach() first"):format(name, t.dtype))
      end
   end)
   local plain = name:match "([%w_]+)$"
   if plain == "where" and is_stored(arguments[1]) then refuse(name, arguments[1].dtype) end
   for _, at in ipairs(positions_at[plain:gsub("_$", "")] or {}) do
      each({n = 1, arguments[at]}, function(t)
         if is_stored(t) then
            torch.raise(("%s: argument %d: expected positions as int64 or int32, got %s"):format(
               name, at, t.dtype))
         end
      end)
   end
   local positions = moves[plain] or bits_of[first] ~= "uint8" and whole_moves[plain]
   if positions then
      if shares_first[plain] or plain == "where" then
         local data = {n = 0}
         for i = plain == "where" and 2 or 1, arguments.n do
            data.n = data.n + 1
            data[data.n] = arguments[i]
         end
         local dtype = common_dtype(plain, data)
         arguments = map(arguments, positions_of(positions, arguments.n), function(value)
            return torch.is_tensor(value) and value.dtype ~= "bool" and value:to(dtype) or value
         end)
         if not bits_of[dtype] then
            return function_of(name)(table.unpack(arguments, 1, arguments.n))
         end
         first = dtype
      end
      return move(name, plain, positions, first, arguments)
   end
   local dtype = common_dtype(plain, arguments)
   if not bits_of[dtype] then
      return call(name, arguments, function(t) return is_stored(t) and t:to(dtype) or t end)
   end
   local kind = dtype == "complex32" and compute_half_complex
      or bits_of[dtype] == "uint8" and compute_float or compute_whole
   return kind(name, plain, dtype, arguments)
end

local in_place <const> = set [[add_ sub_ neg_ abs_ eq_ ne_ mul_ bitwise_and_ bitwise_or_
   bitwise_xor_ ceil_ clamp_ clamp_min_ clamp_max_ floor_ round_ trunc_ relu_ nan_to_num_]]

local function compute_in_place(name, arguments)
   return arguments[1]:copy_((compute(name:sub(1, -2), arguments)))
end

-- maps each operator to the function that computes it, whose errors name the operator
local computing <const> = {}

return function(name, ...)
   if not computing[name] then
      computing[name] = args.named(name, in_place[name] and compute_in_place or compute)
   end
   return computing[name](name, table.pack(...))
end
