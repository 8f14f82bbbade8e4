-- Compares the GPU's kernels with the CPU's. Each operator of the table runs with its examples in every dtype, in
-- memory layouts that use other code paths of a kernel, and in unusual sizes: 0-d, empty, large and odd. If the CPU
-- raises an error, the device must raise the same error. Gradients are compared only in some variants, because they
-- take as long as all results.

local torch = require "tlua"
local table_of = require "spec.support.table"

-- Layouts: the same values in another memory order ------------------------------------------------

local layouts = {}

function layouts.contiguous(x) return x end

-- Puts unused elements between the elements of a tensor.
function layouts.strided(x) return torch.stack({x, x}, -1):select(-1, 1) end

-- Makes the first dimension the innermost in memory.
function layouts.transposed(x)
   if x:dim() < 2 then return layouts.strided(x) end
   return x:transpose(1, -1):contiguous():transpose(1, -1)
end

-- Makes a contiguous tensor that begins one element past an aligned address.
function layouts.misaligned(x)
   local room = torch.empty(x:numel() + 1, {dtype = x.dtype, device = x.device})
   return room:narrow(1, 2, x:numel()):view(x.shape):copy_(x)
end

-- Sizes ---------------------------------------------------------------------------------------------

local sizes = {}

function sizes.none() return {} end

local function each(change)
   return function(...)
      local list = {...}
      for i = 1, #list do list[i] = change(list[i], i) end
      return list
   end
end
sizes.empty = each(function(n, i) return i == 1 and 0 or n end)
-- Makes all sizes odd, and large enough that a tensor has more elements than a block has threads. Equal sizes stay
-- equal.
function sizes.large(...)
   local grow = select("#", ...) > 2 and function(n) return 2 * n + 3 end or function(n) return 11 * n - 4 end
   return each(function(n) return n == 1 and 1 or grow(n) end)(...)
end

-- Variants: {name, floating-point dtype, layout, sizes, gradients = } ----
-- ------------------------------

local variants = {
   {"float64", "float64", "contiguous"},
   {"float64, strided", "float64", "strided", gradients = true},
   {"float32", "float32", "contiguous"},
   {"float32, misaligned", "float32", "misaligned", gradients = true},
   {"float32, large", "float32", "contiguous", "large"},
   {"float32, large, transposed", "float32", "transposed", "large", gradients = true},
   {"float32, large, misaligned", "float32", "misaligned", "large"},
   {"float32, 0-d", "float32", "contiguous", "none"},
   {"float32, empty", "float32", "contiguous", "empty", gradients = true},
   {"float16", "float16", "contiguous", gradients = true},
   {"float16, large, misaligned", "float16", "misaligned", "large"},
   {"bfloat16, transposed", "bfloat16", "transposed"},
   {"bfloat16, large", "bfloat16", "contiguous", "large", gradients = true},
   {"int64, strided", "int64", "strided"},
   {"int32, large", "int32", "contiguous", "large"},
   {"int16, misaligned", "int16", "misaligned"},
   {"int8", "int8", "contiguous"},
   {"uint8", "uint8", "contiguous"},
   {"bool", "bool", "contiguous"},
   {"complex128", "complex128", "contiguous"},
   {"complex64, strided", "complex64", "strided", gradients = true},
   {"complex64, large, misaligned", "complex64", "misaligned", "large"},
   {"complex128, large, transposed", "complex128", "transposed", "large", gradients = true},
   {"complex64, 0-d", "complex64", "contiguous", "none"},
   {"complex64, empty", "complex64", "contiguous", "empty", gradients = true},
}

-- The distance of neighbouring numbers near 1. A device adds in another order and uses other formulas for functions, so
-- its results may differ from the CPU's by several such distances, relative to the largest number in the result.
local spacing <const> = {float64 = 2.0 ^ -52, float32 = 2.0 ^ -23, float16 = 2.0 ^ -10, bfloat16 = 2.0 ^ -7}
local steps <const> = {float64 = 512, float32 = 32, float16 = 2, bfloat16 = 2}

-- For these operators, the tolerance of gradients is multiplied by the input matrix's condition number, since the
-- gradients involve the inverse of the matrix. The condition number of these random matrices is in the hundreds.
local condition <const> = 128
local inverts <const> = {}
for name in ([[cholesky cholesky_inverse cholesky_solve cond det eigh inv inv_ex inverse ldl_solve logdet lstsq
      lu lu_factor lu_solve matrix_power pinv pinverse polar_linalg qr slogdet solve solve_ex svd svdvals tensorinv
      tensorsolve]]):gmatch "%S+" do
   inverts[name] = true
end
-- The rounding error E of a factorization changes the logarithm of a determinant by trace(inv(A) E), so the tolerance
-- of these results is scaled by the condition number as well. An error turns a singular vector or eigenvector by an
-- angle: the error divided by the distance from its singular value or eigenvalue to the next one. The square root of a
-- matrix also multiplies by the eigenvectors twice.
local sensitive <const> = {det = condition, logdet = condition, slogdet = condition, eigh = condition, svd = condition,
                           svdvals = condition, matrix_sqrth = 4}

-- Factors for the tolerance of these operators' gradients. In half types, cuDNN rounds the gradient of a recurrent
-- layer's state after each step.
local recurrent <const> = {rnn_tanh = 4, rnn_relu = 4, lstm = 4, gru = 4}

-- The signs of eigenvectors and singular vectors are arbitrary. Singular vectors that have no singular value may be any
-- basis. This table maps an operator to its results that contain vectors, and tells whether the vectors are the rows or
-- the columns.
local vectors <const> = {eigh = {[2] = "columns"}, svd = {[1] = "columns", [3] = "rows"}}

-- Makes an operator's results comparable: changes the sign of each vector so that its element of largest magnitude is
-- positive, and leaves out vectors that have no singular value.
local function canonical(row, results)
   local kinds = row.form == "svd_torch" and {"columns", [3] = "columns"} or vectors[row.name]
   local values = kinds and results[row.name == "eigh" and 1 or 2]
   if not torch.is_tensor(values) or values:numel() == 0 then return results end
   local count = values:size(-1)
   for i, kind in pairs(kinds) do
      local v = results[i]
      if torch.is_tensor(v) and v:numel() > 0 then
         v = kind == "rows" and v.mT or v
         v = v:narrow(-1, 1, math.min(count, v:size(-1)))
         local largest = v:detach():gather(-2, v:detach():abs():argmax(-2, true))
         results[i] = v * largest:sgn():conj()
      end
   end
   return results
end

-- These operators return uninitialized memory, which cannot be compared.
local unwritten <const> = {empty = true, empty_like = true, new_empty = true, empty_strided = true,
                           empty_permuted = true, new_empty_strided = true, resize_ = true,
                           resize_as_ = true, requires_grad_ = true}
-- Returns whether an operator's results have the dtype complex32, which GPUs do not support.
local function is_refused(row, dtype)
   return row.name == "chalf" or row.name == "view_as_complex" and dtype == "float16"
end
local function is_left_out(row) return unwritten[row.form] or unwritten[row.name] end

-- Only the CPU raises this error: to check the offsets of bags, a device would have to copy them to the host.
local unchecked <const> = "embedding_bag: offsets: expected ascending positions"

local function cast(x, dtype)
   if x:is_complex() then return dtype:find "complex" and x:to(dtype) or x end
   if not x:is_floating_point() then return x end
   if dtype:find "complex" then return x:to(dtype == "complex64" and "float32" or "float64") end
   return dtype:find "float" and x:to(dtype) or (x * 4):to(dtype)
end

-- Evaluates an example on a device, and returns its arguments in the form that a variant prescribes.
local function arguments(text, variant, device)
   local args = table_of.arguments(text, variant[4] and sizes[variant[4]], variant[2]:find "complex" ~= nil)
   return table_of.map(args, function(x)
      local laid = layouts[variant[3]](cast(x:detach(), variant[2]):to(device))
      return variant.gradients and x.requires_grad and laid:requires_grad_() or laid
   end)
end

-- Returns an error message without the parts that may differ: the call that reports the error, and which of several bad
-- positions it names.
local function message_of(fault)
   fault = tostring(fault):gsub("\nstack traceback.*", ""):gsub("%s*%(called at [^)]*%)", "")
   fault = fault:gsub("^.-: ", "", 1):gsub("cuda:0", "cpu"):gsub("^cuda%.synchronize: ", "")
   fault = fault:gsub("position %d+", "position n")
   return (fault:gsub("(expected values from .*, got) %S+$", "%1 n"))
end

-- The bytes that these operators return may differ by 1. The CPU resizes images of bytes with integer weights, as
-- PyTorch does; a device uses float weights.
local rounded <const> = {interpolate = 2}

-- Returns a description of how two results differ, or nil. `factor` multiplies the tolerance. Integers may differ by
-- less than `factor`.
local function difference(expected, actual, factor)
   if expected.dtype ~= actual.dtype then return ("%s, not %s"):format(actual.dtype, expected.dtype) end
   local e, a = expected:detach(), actual:detach():cpu()
   local here, there = table.concat(e.shape, ", "), table.concat(a.shape, ", ")
   if here ~= there then return ("(%s), not (%s)"):format(there, here) end
   if e:numel() == 0 or torch.equal(e, a) then return nil end
   -- marks complex numbers that overflow on both devices, because their parts depend on the order of products
   local lost
   if e:is_complex() then
      lost = e:isfinite():logical_or(a:isfinite()):logical_not():unsqueeze(-1)
      e, a = torch.view_as_real(e), torch.view_as_real(a)
   end
   local real <const> = e.dtype
   if not spacing[real] then
      local off = (e:double() - a:double()):abs():max():item()
      if off > 0 and off < factor then return nil end
      return ("%s, not %s"):format(a, e)
   end
   e, a = e:double(), a:double()
   local same = e:eq(a):logical_or(e:isnan():logical_and(a:isnan()))
   same = lost and same:logical_or(lost) or same
   local off = torch.where(same, torch.zeros_like(e), (a - e):abs())
   local scale = math.max(1, torch.where(e:isfinite(), e:abs(), torch.zeros_like(e)):max():item())
   local most = off:max():item()
   if most <= scale * spacing[real] * steps[real] * factor then return nil end
   return ("off by %g, of numbers up to %g\n%s\nexpected %s"):format(most, scale, actual, expected)
end

local function compare(expected, actual, factor)
   return table_of.compare(expected, actual, function(e, a) return difference(e, a, factor) end)
end

-- Calls fn on a device. Returns true and the results, or false and the error. Waits for the device, because its errors
-- appear only then.
local function attempt(device, fn, ...)
   local results = table.pack(pcall(fn, ...))
   if device ~= "cpu" then
      local ok, fault = pcall(torch[device].synchronize)
      if not ok then return false, fault end
   end
   if not results[1] then return false, results[2] end
   return true, table.pack(table.unpack(results, 2, results.n))
end

local function run(row, text, variant, device)
   local args = arguments(text, variant, device)
   local ok, results = attempt(device, table_of.call, row, args)
   return ok, ok and table.pack(canonical(row, results[1])) or results, args
end

-- Returns the gradients of the inputs. The gradients of the results are random numbers that are the same on both
-- devices.
local function gradients(args, results)
   local inputs, outputs, given = table_of.leaves(args), table_of.leaves(results), {}
   if #inputs == 0 or #outputs == 0 then return table.pack() end
   torch.manual_seed(11)
   for i, y in ipairs(outputs) do
      given[i] = torch.randn(y.shape, {dtype = "float64", device = "cpu"}):to(y.dtype):to(y.device)
   end
   return table.pack(torch.autograd.grad(outputs, inputs, {grad_outputs = given, allow_unused = true}))
end

local compared -- counts the examples in this variant that gave results on both devices
local derived  -- counts the examples in this variant whose gradients were compared

-- Returns a description of how the outcomes of a call on two devices differ, or nil. An outcome is two arguments:
-- whether the call succeeded, and either its results or its error.
local function differ(factor, ok, expected, fine, actual)
   if ok ~= fine then return ok and "fails: " .. tostring(actual) or "does not fail: " .. tostring(expected) end
   if ok then return compare(expected, actual, factor) end
   local e, a = message_of(expected), message_of(actual)
   if e ~= a then return ("says %q, not %q"):format(a, e) end
end

-- Runs an example in a variant on both devices. Returns a description of the difference, or nil.
local function check(row, text, variant)
   local made = pcall(arguments, text, variant, "cpu")
   if not made then return nil end -- the example's arguments cannot be made with the variant's sizes
   local ok, expected, here = run(row, text, variant, "cpu")
   local fine, actual, there = run(row, text, variant, "cuda")
   if not ok and fine and tostring(expected):find(unchecked, 1, true) then return nil end
   local bytes = variant[2] == "uint8" and rounded[row.name]
   local fault = differ(bytes or sensitive[row.name] or 1, ok, expected, fine, actual)
   if fault or not ok then return fault end
   compared = compared + 1
   if not variant.gradients or not row.differentiable then return nil end
   local can, wanted = attempt("cpu", gradients, here, expected)
   fault = differ((inverts[row.name] or inverts[row.form]) and condition or recurrent[row.name] or 1, can, wanted,
      attempt("cuda", gradients, there, actual))
   if can and #table_of.tensors(wanted) > 0 then derived = derived + 1 end
   return fault and "gradient: " .. fault
end

describe("on the GPU's kernels", function()
   local default
   setup(function()
      default = torch.get_default_device()
      torch.set_default_device("cpu")
   end)
   teardown(function() torch.set_default_device(default) end)

   -- SPEC_VARIANT limits the run to one variant, so that several processes can share the work
   local only = os.getenv "SPEC_VARIANT"
   for _, variant in ipairs(variants) do
      local test = (only == nil or only == variant[1]) and it or function() end
      test(("every operator agrees with the CPU: %s"):format(variant[1]), function()
         local faults = {}
         compared, derived = 0, 0
         for _, row in ipairs(table_of.rows()) do
            local skipped = is_left_out(row) or is_refused(row, variant[2])
               or variant[2]:find "complex" and not row.complex
            for _, text in ipairs(skipped and {} or row.examples) do
               local fault = check(row, text, variant)
               if fault then faults[#faults + 1] = ("%s(%s): %s"):format(row.form, text, fault) end
            end
         end
         local list = table.concat(faults, "\n", 1, math.min(#faults, 40))
         assert(#faults == 0, ("%d faults\n%s"):format(#faults, list))
         -- The test would show nothing if most examples raised errors on both devices, so at least this many must give
         -- results.
         local least = variant[2]:find "complex" and 200 or 500
         assert(compared >= least, ("only %d examples had results"):format(compared))
         assert(not variant.gradients or derived >= 0.6 * least, ("only %d examples had gradients"):format(derived))
      end)
   end
end)
