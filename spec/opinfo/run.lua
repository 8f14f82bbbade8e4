-- run.lua FOLDER [operator...]: repeats the calls that calls.py has written to FOLDER, and compares the results
-- with PyTorch's. Prints the differences, a row for each family of operators, intended differences (known.lua), and
-- the totals as the last line. Every operator runs in a separate process, so that a crash affects only that
-- operator.
--
-- With TLUA_SPEC_DEVICE=sim, each call is made on the CPU and on that device, and both outcomes are compared instead.
-- Results and gradients must be equal bit for bit, and error messages must be equal too.

local torch = require "tlua"

local folder, only = arg[1], {table.unpack(arg, 2)}
local device = require "spec.support.device"
local unpack <const> = table.unpack
local shared = require "spec.opinfo.values"
local TOLERANCE <const>, T <const>, show <const> = shared.TOLERANCE, shared.T, shared.show
local is_tensor <const>, compare <const> = shared.is_tensor, shared.compare
local build <const>, built <const> = shared.build, shared.built

---- how calls look ------------------------------------------------------------------

local function show_call(call)
   local parts = {}
   for i = 1, call.a.n do parts[i] = show(call.a[i]) end
   for _, pair in ipairs(call.k) do parts[#parts + 1] = pair[1] .. " = " .. show(pair[2]) end
   local name = call.name .. (call.form == "i" and "_" or "")
   return (call.form == "f" and "torch." or "x:") .. name .. "(" .. table.concat(parts, ", ") .. ")"
end

-- Prepares singular vectors for a comparison. Keeps the k vectors that belong to singular values, and takes absolute
-- values, because the signs of singular vectors are arbitrary.
local function without_signs(r, along)
   local k = r[2].shape[r[2]:dim()]
   r[1], r[3] = r[1]:narrow(-1, 1, k):abs(), r[3]:narrow(along, 1, k):abs()
end

local SIGNLESS <const> = {
   ["linalg.svd"] = function(r) without_signs(r, -2) end,
   svd = function(r) without_signs(r, -1) end,
   ["linalg.eigh"] = function(r) r[2] = r[2]:abs() end,
}

-- Returns whether the positions in a result select elements that equal the expected ones along dimension call.ties. If
-- several elements are equal, PyTorch may return the position of another one.
local function only_tied(call, arguments, results, which)
   local ok, same = pcall(function()
      local x, positions = arguments[1]:detach(), results[which]
      local wanted = build(call.r[which])
      if positions:dim() < x:dim() then
         positions, wanted = positions:unsqueeze(call.ties), wanted:unsqueeze(call.ties)
      end
      return torch.equal(x:gather(call.ties, positions):nan_to_num(), x:gather(call.ties, wanted):nan_to_num())
   end)
   return ok and same
end

---- calls ---------------------------------------------------------------------------

-- For these functions, the first arguments are in the opposite order in PyTorch's database.
local SWAPPED <const> = {
   einsum = true, where = true, ["nn.functional.embedding"] = true, ["nn.functional.embedding_bag"] = true,
}

local OPERATORS <const> = {
   __radd__ = function(a, b) return b + a end, __rsub__ = function(a, b) return b - a end,
   __rmul__ = function(a, b) return b * a end, __rdiv__ = function(a, b) return b / a end,
   __rmod__ = function(a, b) return b % a end, __rpow__ = function(a, b) return b ^ a end,
   __rand__ = function(a, b) return b & a end, __ror__ = function(a, b) return b | a end,
   __rxor__ = function(a, b) return b ~ a end, __rmatmul__ = function(a, b) return b:matmul(a) end,
   __getitem__ = function(x, key) return x[key] end,
   __setitem__ = function(x, key, v) x = x:clone() x[key] = v return x end,
   __repr__ = tostring,
}

local probe = torch.zeros(2, 2)

-- Returns the function for a call, or nil if tlua lacks the operator.
local function callable(call)
   local of_module = call.name:find(".", 1, true)
   local name = call.name .. (call.form == "i" and not of_module and "_" or "")
   if OPERATORS[name] then return OPERATORS[name] end
   if call.form == "f" or of_module then
      local v = torch
      for part in name:gmatch("[^.]+") do v = v and v[part] end
      return v
   end
   local ok, f = pcall(function() return probe[name] end)
   if not ok or f == nil then return nil end
   return function(x, ...)
      local v = x[name]
      if type(v) == "function" then return v(x, ...) end
      return v
   end
end

-- Appends all results to a flat list. The contents of tables are appended one by one.
local function flatten(list, from, count, into)
   for i = from, count do
      if type(list[i]) == "table" then
         flatten(list[i], 1, #list[i], into)
      else
         into.n = into.n + 1
         into[into.n] = list[i]
      end
   end
   return into
end

local function zeros(t)
   for _, v in ipairs(t and t.values or {}) do
      if v ~= 0 and v ~= torch.complex(0, 0) then return false end
   end
   return true
end

local function compare_gradients(call, leaves, results)
   local total = shared.weighted_sum(results)
   if total then total:backward() end
   for i = 1, call.g.n do
      local want, got = call.g[i], leaves[i].grad
      if got and got.layout ~= "strided" then got = shared.dense_gradient(got) end
      if not got or not want then
         local rest = want or got and T(got.dtype, got.shape, nil, got:flatten():tolist())
         if not zeros(rest) then return "gradient missing", rest, got end
      else
         local fault, at = compare(got, want, call.gx and call.gx[i])
         if fault then return "gradient: " .. fault, want, got, at end
      end
   end
end

-- Compares the names of the results' graph nodes with PyTorch's.
local function compare_nodes(call, results)
   for i, want in ipairs(call.nodes or {}) do
      local node = is_tensor(results[i]) and results[i].grad_fn
      local got = node and tostring(node):match "^<(.-)%d*>$" or false
      if got ~= want then return ("node: %s, not %s"):format(got, want), call.nodes, tostring(node) end
   end
end

local function compare_results(call, arguments, results)
   if SIGNLESS[call.name] then SIGNLESS[call.name](results) end
   local wanted = call.r.n
   while wanted > 0 and call.r[wanted] == nil do wanted = wanted - 1 end
   while results.n > 0 and results[results.n] == nil do results.n = results.n - 1 end
   if results.n ~= wanted then return "number of results", call.r, results end
   for i = 1, wanted do
      local given = call.tag == "first64" and TOLERANCE[call.dtype] and call.dtype or nil
      local fault, at = compare(results[i], call.r[i], call.x and call.x[i], call.random, given)
      if fault == "value" and call.ties and only_tied(call, arguments, results, i) then
         call.g = nil -- if a gradient is 0, an equal element got the gradient instead, so gradients are not compared
      elseif fault then
         return fault, call.r[i], results[i], at
      end
   end
end

-- Returns a call's arguments in order, their number, and the arguments that require gradients.
local function arguments_of(call)
   local leaves, count, options = {}, call.a.n, {}
   local arguments = built(call.a, leaves)
   for _, pair in ipairs(call.k) do options[pair[1]] = built(pair[2], leaves) end
   if call.form == "i" and call.name:find(".", 1, true) then options.inplace = true end
   if SWAPPED[call.name] and call.form == "f" then arguments[1], arguments[2] = arguments[2], arguments[1] end
   if next(options) then
      count = count + 1
      arguments[count] = options
   end
   local changed = call.form == "i" or call.name:find("[^_]_$")
   if changed and call.g then arguments[1] = arguments[1]:clone() end
   return arguments, count, leaves
end

-- Returns an error message without its prefix, the location of the call.
local function in_short(message) return (tostring(message):gsub("\n.*", ""):gsub("^%S+:%d+: ", "")) end

-- Makes a call. If it differs from PyTorch, returns the kind of difference, the expected value, the actual value and
-- the element; otherwise returns nil.
local function check(call)
   local f = callable(call)
   if not f then return "missing" end
   local arguments, count, leaves = arguments_of(call)
   local returned = table.pack(pcall(f, unpack(arguments, 1, count)))
   if call.e then
      if returned[1] then return "no error", call.e end
      return nil
   elseif not returned[1] then
      return "error: " .. in_short(returned[2]), call.r
   end
   local results = flatten(returned, 2, returned.n, {n = 0})
   local fault, want, got, at = compare_results(call, arguments, results)
   if fault or not call.g then return fault, want, got, at end
   if not call.random then
      fault, want, got, at = compare_gradients(call, leaves, results)
      if fault then return fault, want, got, at end
   end
   return compare_nodes(call, results)
end

---- two devices ---------------------------------------------------------------------

-- Removes the names of devices from a text. Also removes line breaks, because their positions depend on the lengths of
-- these names.
local function without_device(text)
   return (text:gsub(",%s+device='%w+:0'", ""):gsub(" on %w+:0", ""):gsub("%s+", " "))
end

-- Makes a call on a device. Returns the results and the gradients of their sum, or an error message.
local function outcome(call, f, on)
   torch.set_default_device(on)
   torch.manual_seed(1)
   local arguments, count, leaves = arguments_of(call)
   local returned = table.pack(pcall(f, unpack(arguments, 1, count)))
   local late = on == device.name and device.fault()
   local message = not returned[1] and returned[2] or late
   if message then return {message = without_device(in_short(message))} end
   local results = flatten(returned, 2, returned.n, {n = 0})
   local total = shared.weighted_sum(results)
   if total then total:backward() end
   local values = {n = results.n + #leaves}
   for i = 1, results.n do values[i] = results[i] end
   for i, leaf in ipairs(leaves) do values[results.n + i] = leaf.grad end
   return values
end

-- Returns a text that shows every bit of a value. Elements with undefined values are left out.
local function bits(v, undefined)
   if not is_tensor(v) then return math.type(v) == "float" and ("%a"):format(v) or without_device(tostring(v)) end
   local format = v:is_floating_point() and "%a " or "%s "
   local text = {v.dtype, "[", table.concat(v.shape, ","), "] "}
   if undefined then return table.concat(text) end
   if v.layout ~= "strided" then
      local positions, values = shared.parts_of_sparse(v:detach())
      positions[#positions + 1] = values
      for _, part in ipairs(positions) do text[#text + 1] = bits(part) end
      return v.layout .. table.concat(text)
   end
   for _, x in ipairs(v:detach():flatten():tolist()) do text[#text + 1] = format:format(x) end
   return table.concat(text)
end

local UNDEFINED <const> = {empty = true, empty_like = true, empty_strided = true,
   empty_permuted = true, new_empty = true, new_empty_strided = true, resize = true, resize_as = true}

local function compare_devices(call)
   local f = callable(call)
   if not f then return nil end
   local want, got = outcome(call, f, "cpu"), outcome(call, f, device.name)
   if want.message ~= got.message then
      local order = want.message and got.message and want.message:find "position .* is out of range"
      return order and "order of checks" or "message", want.message or want, got.message or got
   elseif want.n ~= got.n then
      return "number of results", want, got
   end
   local undefined = UNDEFINED[(call.name:gsub("_$", ""))]
   for i = 1, want.n or 0 do
      local same, here, there = pcall(function() return bits(want[i], undefined), bits(got[i], undefined) end)
      if not same then return "harness: " .. here end
      if here ~= there then return "bits of result " .. i, here, there end
   end
end

---- one operator, in a process of its own --------------------------------------------

local ENVIRONMENT <const> = {T = T, S = shared.S, Z = torch.complex, newaxis = torch.newaxis, nan = -(0 / 0),
   inf = math.huge, math = math}

local function names_operator(row, name)
   for op in (row.ops or name):gmatch("%S+") do
      if op == name then return true end
   end
end

local function reason_of(call, fault)
   for _, row in ipairs(dofile("spec/opinfo/known.lua")) do
      if (row.device or false) == (device.name ~= nil) and fault:find(row.fault)
         and call.tag:find(row.tag or "") and call.dtype:find(row.dtype or "")
         and (call.e or ""):find(row.refused or "") and names_operator(row, call.name) then
         return row.why
      end
   end
end

-- Prints one line for each call that differs. It has the location, the fault, the reason if the difference is intended,
-- the call, and both results.
local function run_operator(path)
   torch.set_num_threads(1)
   torch.manual_seed(1)
   local count = 0
   for line in io.lines(path) do
      count = count + 1
      local call = load("return " .. line, path, "t", ENVIRONMENT)()
      print("call", count, call.form)
      local compared = device.name and compare_devices or check
      local ok, fault, want, got, at = xpcall(compared, debug.traceback, call)
      if not ok then fault = "harness: " .. fault end
      if fault then
         local field = {"fault", call.form, call.dtype, call.tag, fault, reason_of(call, fault) or "",
            show_call(call), (at and "[" .. at .. "] " or "") .. show(want), show(got)}
         for i, v in ipairs(field) do field[i] = v:gsub("%s+", " "):sub(1, 600) end
         print(table.concat(field, "\t"))
      end
   end
   print("end")
end

---- all operators -------------------------------------------------------------------

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

-- Runs a file of calls in a separate process. Returns the number of calls, a list of the calls' faults (each is a list
-- of fields), and the overloads that were called.
local function run_apart(path)
   local pipe <close> = assert(io.popen(("%s spec/opinfo/run.lua --operator %s"):format(quote(arg[-1]), quote(path))))
   local calls, faults, forms, last = 0, {}, {}, nil
   for line in pipe:lines() do
      local field = {}
      for v in (line .. "\t"):gmatch("(.-)\t") do field[#field + 1] = v end
      if field[1] == "call" then
         calls = tonumber(field[2])
         forms[field[3]] = true
      end
      if field[1] == "fault" then faults[#faults + 1] = field end
      last = line
   end
   if last ~= "end" then faults[#faults + 1] = {"fault", "", "", "", "crash in call " .. calls, "", "", "", ""} end
   return calls, faults, forms
end

-- Prints the faults of an operator in short form. Equal faults are printed only once.
local function report(name, faults)
   local seen, order = {}, {}
   for _, f in ipairs(faults) do
      local alike = f[5]:gsub("%-?%d[%d.e+-]*", "#"):gsub("%[[^]]*%]", "[]")
      if not seen[alike] then order[#order + 1] = {f, alike} end
      seen[alike] = (seen[alike] or 0) + 1
   end
   for _, pair in ipairs(order) do
      local f = pair[1]
      print(("%s: %d x %s  (%s %s %s)"):format(name, seen[pair[2]], f[5], f[2], f[3], f[4]))
      print("   " .. f[7] .. "\n   expected " .. f[8] .. "\n   got      " .. f[9])
   end
end

local function sorted_keys(t)
   local keys = {}
   for k in pairs(t) do keys[#keys + 1] = k end
   table.sort(keys)
   return keys
end

local totals = {} -- each family of operators has the number of operators, calls, differences and known differences
-- Each kind of overload has three totals: operators that have this kind, operators that differ, and operators that
-- differ intentionally.
local forms = {f = {"functions", 0, 0, 0}, m = {"methods", 0, 0, 0}, i = {"in place", 0, 0, 0}}
local reasons = {} -- counts how often each row of known.lua was applied
local missing = {} -- the names of operators that tlua lacks

local function run_file(path)
   local family, name = path:match("([^/]+)/([^/]+)%.lua$")
   local calls, faults, has = run_apart(path)
   if faults[1] and faults[1][5] == "missing" and #faults == calls then
      missing[#missing + 1] = name
      return
   end
   local left, differs, known = {}, {}, {}
   for _, f in ipairs(faults) do
      local form, why = f[2], f[6]
      if why == "" then
         left[#left + 1] = f
         differs[form] = true
      else
         reasons[why] = (reasons[why] or 0) + 1
         known[form] = true
      end
   end
   for form in pairs(has) do
      local row = forms[form]
      row[2] = row[2] + 1
      if differs[form] then row[3] = row[3] + 1 elseif known[form] then row[4] = row[4] + 1 end
   end
   local row = totals[family] or {0, 0, 0, 0}
   totals[family] = row
   for i, n in ipairs {1, calls, #left, #faults - #left} do row[i] = row[i] + n end
   report(name, left)
end

local function main()
   local wanted = {}
   for _, name in ipairs(only) do wanted[name] = true end
   local pipe <close> = assert(io.popen("find " .. quote(folder) .. " -name '*.lua' | sort"))
   for path in pipe:lines() do
      if #only == 0 or wanted[path:match("([^/]+)%.lua$")] then run_file(path) end
   end
   print(("\n%-16s %10s %10s %10s %10s"):format("family", "operators", "calls", "differ", "known"))
   for _, family in ipairs(sorted_keys(totals)) do
      print(("%-16s %10d %10d %10d %10d"):format(family, unpack(totals[family])))
   end
   local all = {0, 0, 0, 0}
   for _, row in pairs(totals) do
      for i, n in ipairs(row) do all[i] = all[i] + n end
   end
   print(("%-16s %10d %10d %10d %10d"):format("all", unpack(all)))
   print(("\n%-16s %10s %10s %10s"):format("form", "operators", "differ", "known"))
   for _, form in ipairs {"f", "m", "i"} do print(("%-16s %10d %10d %10d"):format(unpack(forms[form]))) end
   print("\nKnown differences:")
   for _, why in ipairs(sorted_keys(reasons)) do print(("%7d  %s"):format(reasons[why], why)) end
   print("\nWithout a counterpart: " .. table.concat(missing, " "))
   print(("%d calls, %d differ"):format(all[2], all[3]))
end

if folder == "--operator" then run_operator(only[1]) else main() end
