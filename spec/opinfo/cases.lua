-- cases.lua - runs the cases that modules.py has written. A case is a module with given weights, 20 steps of an
-- optimizer, or the learning rates of a schedule. Each check returns a description of the difference from PyTorch, or
-- nil.
--
-- Arguments without a default are passed by position; Python's keyword arguments become fields of the options
-- table.

local torch = require "tlua"
local values = require "spec.opinfo.values"

local nn, F <const> = torch.nn, torch.nn.functional

-- In the text of a case, an object of this class stands for a module, a function or a packed sequence.
local Made <const> = {}
local function made(kind)
   return function(name, a, k) return setmetatable({kind = kind, name = name, a = a, k = k}, Made) end
end

local ENVIRONMENT <const> = {T = values.T, Z = torch.complex, M = made "module", F = made "function",
   nan = -(0 / 0), inf = math.huge, math = math}

local arguments

local function build(v, leaves)
   if type(v) ~= "table" or v.dtype and v.sizes then return values.built(v, leaves) end
   if getmetatable(v) == Made then
      if v.kind == "function" then return F[v.name] end
      return nn[v.name](arguments(v.a, v.k, leaves))
   end
   local list = {}
   for key, item in pairs(v) do
      if key ~= "n" then list[key] = build(item, leaves) end
   end
   return list
end

function arguments(a, k, leaves)
   local list, n, named = {}, a.n, {}
   for i = 1, n do list[i] = build(a[i], leaves) end
   for _, pair in ipairs(k) do named[pair[1]] = build(pair[2], leaves) end
   if next(named) then
      n = n + 1
      list[n] = named
   end
   return table.unpack(list, 1, n)
end

local function flatten(list, n)
   local into = {n = 0}
   for i = 1, n do
      local items = type(list[i]) == "table" and list[i] or {list[i]}
      for k = 1, math.max(#items, 1) do
         into.n = into.n + 1
         into[into.n] = items[k]
      end
   end
   return into
end

local function zeros(want)
   for _, v in ipairs(want and want.values or {}) do
      if v ~= 0 then return false end
   end
   return true
end

local function differs(what, got, want, random, exact)
   if got == nil and (want == nil or zeros(want)) then return nil end
   if want == nil then return not got:eq(0):all():item() and what .. ": not nil" or nil end
   local fault, at = values.compare(got, want, exact, random)
   if fault then
      return ("%s: %s\n      expected %s\n      got      %s"):format(
         what, fault, (at and "[" .. at .. "] " or "") .. values.show(want), values.show(got))
   end
end

local function named_differ(what, list, want, random, exact)
   local got = {}
   for name, t in list do got[name] = t end
   for name, t in pairs(want) do
      local fault = differs(what .. name, got[name], t, random, exact and exact[name])
      if fault then return fault end
   end
end

local function gradients(module)
   local next_parameter = module:named_parameters()
   return function()
      local name, p = next_parameter()
      if name then return name, p.grad or false end
   end
end

local function check_module(case)
   local Class = nn[case.name]
   if not Class then return "missing" end
   torch.manual_seed(1)
   local module = Class(arguments(case.a[1], case.a[2], {}))
   if not (case.e and case.name:find "Loss$") then module:to(case.dtype) end
   if not case.f then return nil end
   module:train(case.training ~= false)
   local leaves = {}
   if case.name:find "^Lazy" then
      module(arguments(case.f[1], case.f[2], {}))
      module:to(case.dtype)
   end
   if case.w then module:load_state_dict(build(case.w, {})) end
   local given = table.pack(arguments(case.f[1], case.f[2], leaves))
   local returned = table.pack(module(table.unpack(given, 1, given.n)))
   if not case.r then return nil end
   local results = flatten(returned, returned.n)
   while results.n > 0 and results[results.n] == nil do results.n = results.n - 1 end
   while case.r.n > 0 and case.r[case.r.n] == nil do case.r.n = case.r.n - 1 end
   if results.n ~= case.r.n then return ("%d results instead of %d"):format(results.n, case.r.n) end
   for i = 1, results.n do
      local fault = differs("result " .. i, results[i], case.r[i], case.random, case.x and case.x[i])
      if fault then return fault end
   end
   local total = values.weighted_sum(results)
   if total then total:backward() end
   for i = 1, case.g.n do
      local fault = differs("gradient " .. i, leaves[i].grad, case.g[i], case.random, case.gx and case.gx[i])
      if fault then return fault end
   end
   return named_differ("gradient of ", gradients(module), case.gw, case.random, case.gwx)
      or named_differ("buffer ", module:named_buffers(), case.after, case.random)
end

local function check_optimizer(case)
   local Class = torch.optim[case.name]
   if not Class then return "missing" end
   local params = {}
   for i, p in ipairs(case.p or {}) do params[i] = values.built(p, {}) end
   if case.e then params[1] = torch.randn(1, 1, {requires_grad = true}) end
   local optimizer = Class(params, build(case.o))
   if case.e then return nil end
   local function closure()
      optimizer:zero_grad()
      local total = 0
      for i, p in ipairs(params) do
         local place = torch.arange(p:numel(), {dtype = "float64"}):reshape(p.shape) + (i - 1)
         local d = p:double() - torch.cos(place)
         total = total + (d * d * (1 + 0.3 * torch.sin(place))):sum()
      end
      total:backward()
      return total
   end
   for _ = 1, 20 do optimizer:step(closure) end
   for i, want in ipairs(case.r) do
      local fault = differs("parameter " .. i, params[i]:detach(), want)
      if fault then return fault end
   end
end

local function check_schedule(case)
   if not torch.optim.lr_scheduler[case.name] then return "missing" end
   local groups = {}
   for i, shape in ipairs {{3, 4}, {4, 1}} do groups[i] = {params = {torch.zeros(shape, {requires_grad = true})}} end
   groups[2].lr = 0.5
   local optimizer = torch.optim.SGD(groups, {lr = 0.05, momentum = 0.9})
   local schedule = case.o(optimizer, torch.optim.lr_scheduler)
   for i = 1, #case.steps + 1 do
      for g, want in ipairs(case.r[i]) do
         local group = optimizer.param_groups[g]
         for k, got in ipairs {group.lr, group.momentum} do
            if math.abs(got - want[k]) > 1e-12 + 1e-10 * math.abs(want[k]) then
               return ("%s of group %d after %d steps: expected %.12g, got %.12g"):format(
                  k == 1 and "lr" or "momentum", g, i - 1, want[k], got)
            end
         end
      end
      if case.steps[i] then
         optimizer:step()
         schedule:step(table.unpack(case.steps[i]))
      end
   end
end

local function fault_of(check, case)
   local ok, fault = xpcall(check,
      function(message) return case.e and "refused" or tostring(message):gsub("\nstack.*", "") end, case)
   if not case.e then return fault end
   if ok then return fault or "no error" end
end

-- Reads one case or a list of cases from a file's text.
local function read(text, name) return assert(load("return " .. text, name, "t", ENVIRONMENT))() end

return {
   read = read,
   module = function(case) return fault_of(check_module, case) end,
   optimizer = function(case) return fault_of(check_optimizer, case) end,
   schedule = function(case) return fault_of(check_schedule, case) end,
}
