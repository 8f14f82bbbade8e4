-- Tests that the options that a declaration lists are exactly those that the code accepts. Each function is called with
-- an unknown option; its error message names all valid options.

local torch = require "tlua"
local shell = require "spec.support.shell"

package.path = "src/docs/?.lua;" .. package.path
local all = require "declarations".all(".", shell.build .. "/gen")

-- Names that an error message lists as options but that users do not pass as options. The function itself adds some of
-- them, and others are the tensor of a method.
local given <const> = {
   ["torch.cuda.amp.GradScaler"] = {device = true}, ["torch.sim.amp.GradScaler"] = {device = true},
   ["torch.Tensor.stft"] = {input = true}, ["torch.Tensor.istft"] = {input = true},
}

local function value_of(path)
   local value = torch
   for part in path:gsub("^torch%.?", ""):gmatch "[^.]+" do value = value[part] end
   return value
end

-- Returns the parameters' names in a declaration, the names of required parameters, and whether the function takes
-- options.
local function declared_names(declared)
   local names, required, has_options = {}, {}, false
   for i, form in ipairs(declared.forms or {declared}) do
      for _, p in ipairs(i == 1 and declared.params or form.params) do
         names[p.name] = true
         if p.optional or p.default ~= nil then
            has_options = true
         elseif i == 1 then
            required[#required + 1] = p
         end
         for _, option in ipairs(p.options or {}) do names[option.name] = true end
         if p.options then has_options = true end
      end
   end
   return names, required, has_options
end

local x <const> = torch.ones(2, 2)
local samples <const> = {
   integer = 1, number = 0.5, boolean = true, string = "mean", ["function"] = function() end, table = {},
}

-- Calls a function with 0 to 4 arguments and an unknown option, until an error message names that option. Returns the
-- message.
local function refusal(fn, required)
   for n = 0, 4 do
      for _, of_type in ipairs {true, false} do
         local list = {}
         for i = 1, n do
            local p = of_type and required[i]
            list[i] = p and samples[p.type:match "^%w+"] or x
         end
         list[n + 1] = {nonsense_option = 1}
         local ok, message = pcall(fn, table.unpack(list, 1, n + 1))
         message = not ok and tostring(message)
         if message and message:find("nonsense_option", 1, true) then return message end
      end
   end
end

-- Returns the option names in an error message, such as "there are a, b and c" or "usage: sum(self, dim?, {dtype})".
local function names_in(message)
   local names, usage = {}, message:match "usage: (.*)$"
   if usage then
      for call in usage:gmatch "%b()" do
         for name in call:gsub('%b""', ""):gsub("=%s*[^,})]+", ""):gmatch "[%a_][%w_]*" do names[name] = true end
      end
      return names
   end
   local list = message:match "there are (.*)$" or message:match "there is (.*)$"
   for name in (list or ""):gsub("%b()", ""):gmatch "[%a_][%w_]*" do
      if name ~= "and" and name ~= "or" then names[name] = true end
   end
   return list and names or nil
end

-- Returns whether this spec may call a function or class. It must not call profiler.script.start, which would record
-- the remaining tests.
local function is_called(declared)
   if declared.path == "torch.profiler.script.start" then return false end
   return (declared.kind == "function" or declared.kind == "class") and not declared.is_value
end

describe("the options in declarations", function()
   local undeclared, unread, compared, with_options = {}, {}, 0, 0

   setup(function()
      for _, declared in ipairs(all) do
         local names, required, has_options = declared_names(declared)
         if is_called(declared) and has_options then
            with_options = with_options + 1
            local message = refusal(value_of(declared.path), required)
            local read = message and names_in(message)
            if read then
               compared = compared + 1
               local own = given[declared.path] or {}
               for name in pairs(read) do
                  if not names[name] and not own[name] and name ~= "self" then
                     undeclared[#undeclared + 1] = declared.path .. ": " .. name
                  end
               end
               -- For an operator with several forms, the error may list the options of another form.
               local is_one = not declared.forms or #declared.forms == 1
               for _, p in ipairs(is_one and declared.params or {}) do
                  local by_name = (p.optional or p.default ~= nil) and p.name ~= "options"
                     and p.name ~= "fn" -- `fn` is the function that a scope calls, not an option
                  for _, name in ipairs {by_name and p.name or nil} do
                     if not read[name] then unread[#unread + 1] = declared.path .. ": " .. name end
                  end
                  for _, option in ipairs(p.options or {}) do
                     if not read[option.name] then unread[#unread + 1] = declared.path .. ": " .. option.name end
                  end
               end
            end
         end
      end
   end)

   it("are compared with those that the code reads for 4 of 5 functions and classes", function()
      assert.is_true(with_options > 900, with_options)
      assert.is_true(compared / with_options > 0.8, compared .. " of " .. with_options)
   end)

   it("include all that the code reads", function() assert.equal("", table.concat(undeclared, "\n")) end)

   it("are all read by the code", function() assert.equal("", table.concat(unread, "\n")) end)
end)
