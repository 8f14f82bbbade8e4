-- main.lua - the generator: `lua src/gen/main.lua OUTDIR` reads the operator table in
-- src/ops/*/*.lua and writes all generated files. A file is rewritten only if its content changes.

local here = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = here .. "/?.lua;" .. package.path

local load = require "load"
local ops = require "emit_ops"
local kernels = require "emit_kernels"
local bind = require "emit_bind"
local calls = require "emit_calls"
local docs = require "emit_docs"
local profile = require "emit_profile"
local signatures = require "emit_signatures"

local function read(path)
   local file = io.open(path, "rb")
   local text = file and file:read("a")
   if file then file:close() end
   return text
end

local function write(path, text)
   if read(path) ~= text then
      local file <close> = assert(io.open(path, "wb"))
      assert(file:write(text))
   end
end

local function families(directory)
   local list = assert(io.popen("ls " .. directory .. "/*/*.lua"))
   local paths = {}
   for path in list:lines() do
      paths[#paths + 1] = path
   end
   list:close()
   return paths
end

-- Returns the text of all C files in the subfolders of the given folders, joined to one string.
local function sources(folders)
   local texts = {}
   for _, folder in ipairs(folders) do
      local list <close> = assert(io.popen("ls " .. folder .. "/*/*.c"))
      for path in list:lines() do texts[#texts + 1] = read(path) end
   end
   return table.concat(texts)
end

-- The headers that the host and its plugins must have in the same version, besides the generated
-- kernels.h.
local shared = {"tlua.h", "core/kernel/iter.h", "core/kernel/fault.h", "core/kernel/parts.h",
   "core/kernel/image_kernels.h", "core/kernel/kernel.h", "core/kernel/lapack.h",
   "core/device/api.h", "core/device/backend.h", "core/device/host.h"}

local function shared_text()
   local texts = {}
   for i, name in ipairs(shared) do texts[i] = assert(read(here .. "/../" .. name), name) end
   return table.concat(texts)
end

local function main(out, names, reached, mode)
   local all = load.load(families(here .. "/../ops"))
   if names then
      load.keep_only(all, names, mode == "train")
      profile.off = true
      all.sources = reached and assert(read(reached), reached)
         or sources {here .. "/../ops", here .. "/../../kernels/cpu"}
   end
   all.types = ""
   for _, name in ipairs {"types", "types_devices", "types_dtypes", "types_io"} do
      all.types = all.types .. read(("%s/../lua/%s.lua"):format(here, name))
   end
   os.execute(("mkdir -p '%s'"):format(out))
   write(out .. "/ops.h", ops.header(all))
   write(out .. "/calls.h", calls.header(all))
   write(out .. "/calls.c", calls.source(all))
   for name, text in pairs(kernels.headers(all, shared_text())) do
      write(out .. "/" .. name, text)
   end
   for _, family in ipairs(all.families) do
      write(("%s/ops_%s.c"):format(out, family.name), ops.family(family, all))
      write(("%s/bind_%s.c"):format(out, family.name), bind.family(family, all))
   end
   write(out .. "/bind.h", bind.header(all))
   if names then write(out .. "/left_out.lua", docs.left_out(all)) end
   write(out .. "/manual.lua", docs.manual(all))
   write(out .. "/signatures.lua", signatures.signatures(all))
   write(out .. "/operators.lua", docs.operators(all))
   write(out .. "/gradlist.lua", docs.gradlist(all))
end

main(arg[1] or error("usage: lua src/gen/main.lua OUTDIR [OPERATORS [C-SOURCES train|infer]]"),
   table.unpack(arg, 2, 4))
