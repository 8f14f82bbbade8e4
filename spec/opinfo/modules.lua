-- modules.lua FOLDER [name...]: makes the modules, optimizers and schedules that modules.py has written to FOLDER,
-- with the same weights, and compares results, gradients, buffers and 20 steps with PyTorch's. Prints what
-- differs, which public names are missing, and as the last line the totals.

local torch = require "tlua"
local cases_of = require "spec.opinfo.cases"

local folder, wanted = arg[1], {table.unpack(arg, 2)}

-- Public in PyTorch, with no meaning here.
local OTHER <const> = {
   factory_kwargs = "a helper of theirs",
   Tensor = "an import", Module = "an import", Optimizer = "an import", LRScheduler = "an import",
}

---- all of them ------------------------------------------------------------------------

local function is_wanted(name)
   for _, other in ipairs(wanted) do
      if other == name then return true end
   end
   return #wanted == 0
end

-- The number of classes and of cases in a folder, and of both those that differ.
local function run(kind, check)
   local classes, cases, bad_classes, bad_cases = 0, 0, 0, 0
   local pipe <close> = assert(io.popen(("ls '%s/%s'"):format(folder, kind)))
   for file in pipe:lines() do
      local name, seen, order = file:match "^(.*)%.lua$", {}, {}
      if is_wanted(name) then
         classes = classes + 1
         for line in io.lines(("%s/%s/%s"):format(folder, kind, file)) do
            cases = cases + 1
            local case = cases_of.read(line, file)
            local fault = check(case)
            if fault then
               bad_cases = bad_cases + 1
               local alike = fault:gsub("\n.*", ""):gsub("%d+", "#")
               if not seen[alike] then order[#order + 1] = {alike, fault, case} end
               seen[alike] = (seen[alike] or 0) + 1
            end
         end
         if #order > 0 then bad_classes = bad_classes + 1 end
         for _, row in ipairs(order) do
            print(("%s: %d x (%s %s) %s"):format(name, seen[row[1]], row[3].desc or "", row[3].dtype or "", row[2]))
         end
      end
   end
   return ("%s: %d of %d differ (%d of %d cases)"):format(kind, bad_classes, classes, bad_cases, cases)
end

local function missing_names()
   local missing, count = {}, 0
   for line in io.lines(folder .. "/names.lua") do
      local row = load("return " .. line)()
      local place = torch
      for part in row[1]:gmatch "[^.]+" do place = place[part] end
      for _, name in ipairs(row[2]) do
         if not OTHER[name] then
            count = count + 1
            if place[name] == nil then missing[#missing + 1] = row[1] .. "." .. name end
         end
      end
   end
   if #missing > 0 then print("missing: " .. table.concat(missing, " ")) end
   return ("names: %d of %d are missing"):format(#missing, count)
end

local totals = {run("modules", cases_of.module), run("optimizers", cases_of.optimizer),
   run("schedules", cases_of.schedule)}
if #wanted == 0 then totals[#totals + 1] = missing_names() end
print(table.concat(totals, "\n"))
