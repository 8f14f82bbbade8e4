-- modules.lua FOLDER [name...]: rebuilds the modules, optimizers and schedules that modules.py has written to
-- FOLDER, with the same weights, and compares results, gradients, buffers and 20 steps with PyTorch's. Prints
-- differences, missing public names, and the totals as the last line. If the argument is the word `names`, only
-- the public names are checked.

local torch = require "tlua"
local cases_of = require "spec.opinfo.cases"

local folder, wanted = arg[1], {table.unpack(arg, 2)}

-- Public names of PyTorch that have no meaning in tlua.
local OTHER <const> = {
   factory_kwargs = "a helper of theirs",
   Tensor = "an import", Module = "an import", Optimizer = "an import", LRScheduler = "an import",
}

-- Names that belong to features that tlua does not have yet, or to PyTorch's internals.
local LATER <const> = {
   {"complex", "complex numbers"}, {"^is_conj", "complex numbers"}, {"^is_neg$", "complex numbers"},
   {"^conj", "complex numbers"}, {"^resolve_", "complex numbers"}, {"^real$", "complex numbers"},
   {"^imag$", "complex numbers"}, {"^angle$", "complex numbers"}, {"^polar$", "complex numbers"},
   {"^c?hal?f$", "complex numbers"}, {"^cfloat$", "complex numbers"}, {"^cdouble$", "complex numbers"},
   {"sparse", "sparse tensors"}, {"_indices", "sparse tensors"}, {"^coalesce$", "sparse tensors"},
   {"^.?s[pm]mm?$", "sparse tensors"}, {"^sspaddmm$", "sparse tensors"}, {"^to_dense$", "sparse tensors"},
   {"^values$", "sparse tensors"}, {"^indices$", "sparse tensors"}, {"^dense_dim$", "sparse tensors"},
   {"quantize", "quantised tensors"}, {"^q_", "quantised tensors"}, {"^quantized", "quantised tensors"},
   {"^qu?int", "quantised tensors"}, {"^QU?Int", "quantised tensors"}, {"^int_repr$", "quantised tensors"},
   {"^qscheme$", "quantised tensors"}, {"^per_", "quantised tensors"}, {"^fbgemm", "quantised tensors"},
   {"float[48]_", "float8"}, {"^u?int[1-7]$", "packed integers"}, {"^bits", "packed integers"},
   {"^cudnn_", "a kernel by name"}, {"^miopen", "a kernel by name"}, {"^mkldnn", "a kernel by name"},
   {"^native_", "a kernel by name"}, {"^batch_norm_", "a kernel by name"}, {"_copy$", "a copy of a view"},
   {"Type$", "TorchScript"}, {"^Script", "TorchScript"}, {"^sym_", "a compiler"}, {"^Sym", "a compiler"},
   {"Storage", "storages"}, {"Error$", "an exception"}, {"mkldnn", "another library"},
   {"is_vulkan", "another device"}, {"is_x[lp][au]", "another device"}, {"is_ipu", "another device"},
   {"is_m[ta][ip]a", "another device"}, {"is_hpu", "another device"}, {"^[imh][pt][ui]a?$", "another device"},
}

---- all of them ------------------------------------------------------------------------

local function is_wanted(name)
   for _, other in ipairs(wanted) do
      if other == name then return true end
   end
   return #wanted == 0
end

-- Runs all cases in a folder. Returns the number of classes, the number of cases, and the number of cases that differ.
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

-- Returns whether a table or tensor has a field. Uses pcall, because reading a missing field of a public table or a
-- tensor raises an error.
local function has(place, name)
   local ok, value = pcall(function() return place[name] end)
   return ok and value ~= nil
end

local function place_of(row)
   if row[3] then return load("local torch = ... return " .. row[3])(torch) end
   local place = torch
   for part in row[1]:gmatch "[^.]+" do
      if not has(place, part) then return {} end
      place = place[part]
   end
   return place
end

-- Returns why tlua does not need a name, or the missing feature that the name belongs to.
local function reason_of(name)
   if OTHER[name] then return OTHER[name] end
   for _, row in ipairs(LATER) do
      if name:find(row[1]) then return row[2] end
   end
   return nil
end

local function missing_names()
   local count, total = 0, 0
   for line in io.lines(folder .. "/names.lua") do
      local row = load("return " .. line)()
      local place, missing = place_of(row), {}
      for _, name in ipairs(row[2]) do
         if not reason_of(name) then
            total = total + 1
            if not has(place, name) then missing[#missing + 1] = name end
         end
      end
      count = count + #missing
      if #missing > 0 then
         local path = row[1] == "" and "torch" or "torch." .. row[1]
         print(("missing in %s: %s"):format(path, table.concat(missing, " ")))
      end
   end
   return ("names: %d of %d are missing"):format(count, total)
end

if wanted[1] == "names" then
   print(missing_names())
   return
end

local totals = {run("modules", cases_of.module), run("optimizers", cases_of.optimizer),
   run("schedules", cases_of.schedule)}
if #wanted == 0 then totals[#totals + 1] = missing_names() end
print(table.concat(totals, "\n"))
