-- emit_kernels.lua - writes kernels.h, which lists the kernels in the operator table, and headers
-- that include a template once for each kernel in a list.

local cdecl = require "cdecl"
local fill = require "template"

local M = {}

local titles = {
   pointwise = [[
/* X(name, inputs, types, result): types NUMBER (I32 I64 F32 F64), FLOATING (F32 F64),
** RARE (FLOATING, but seldom called) or INTEGER (I32 I64); result SAME or BOOL. */]],
   complex = "/* X(name, inputs, result): kernels that also compute in C64 and C128; "
      .. "result SAME, BOOL or REAL. */",
   reduction = "/* X(name, types) */",
   scan = "/* X(name, types) */",
}

local function inputs_of(op)
   local n = 0
   for _, p in ipairs(op.params) do
      if cdecl.tensor_types[p.type] then n = n + 1 end
   end
   return n
end

--- Returns the 64-bit FNV-1a hash of a text.
function M.hash(text)
   local hash = 0xcbf29ce484222325
   for i = 1, #text do hash = (hash ~ text:byte(i)) * 0x100000001b3 end
   return hash
end

-- Returns the set of kernels whose names occur in the C sources. Comparisons with a kernel do not
-- count, because they do not run it.
local function named(sources, prefix)
   local names = {}
   sources = sources:gsub("[=!]=%s*TLK_[%l%d_]+", "")
   for name in sources:gmatch("TLK_" .. prefix .. "([%l%d_]+)") do names[name] = true end
   return names
end

-- The type lists of a kernel that this build leaves out. The lists are empty, so the kernel has no
-- loops.
local no_types = [[
#define TLK_IN_f32_NONE(...)
#define TLK_IN_f64_NONE(...)
#define TLK_IN_i32_NONE(...)
#define TLK_IN_i64_NONE(...)
]]

local function kernel_list(macro, rows)
   local out = {("#define %s(X)"):format(macro)}
   for _, row in ipairs(rows) do out[#out + 1] = "  X(" .. row .. ")" end
   return table.concat(out, " \\\n") .. "\n"
end

-- Sets the types to NONE for each kernel that the build leaves out.
local function leave_out(rows, kept)
   for i, row in ipairs(rows) do
      if not kept[row:match "^[%w_]+"] then
         for _, types in ipairs {"NUMBER", "FLOATING", "RARE", "INTEGER"} do
            row = row:gsub(types, "NONE")
         end
         rows[i] = row
      end
   end
end

local header_of_templates <const> = [[
/* Generated from src/ops; not to be edited. Includes the file TEMPLATE for each $kind kernel whose
** types TAKES knows. */
]]

-- Returns a header that includes a template once for each row. The columns of the row are macros
-- during the inclusion.
local function templates(kind, columns, rows)
   local out = {fill(header_of_templates, {kind = kind})}
   for _, row in ipairs(rows) do
      local defined = {}
      local next_value = row:gmatch "[%w_]+"
      for _, column in ipairs(columns) do
         local value = next_value()
         if column == "types" then
            out[#out + 1] = ("#if TAKES(%s)"):format(value)
         else
            defined[#defined + 1] = ("#define %s %s"):format(column, value)
         end
      end
      table.move(defined, 1, #defined, #out + 1, out)
      out[#out + 1] = "#include TEMPLATE"
      for _, column in ipairs(columns) do
         if column ~= "types" then out[#out + 1] = "#undef " .. column end
      end
      out[#out + 1] = "#endif"
   end
   return table.concat(out, "\n") .. "\n"
end

--- Returns two values: kernels.h, and a table of the other headers by name. kernels.h has X-macro
--- lists and enums of the kernels in the table, and a hash of these lists and of the headers that
--- the host and its plugins share, by which they detect different versions.
function M.headers(all, shared)
   local lists = {pointwise = {}, reduction = {}, scan = {}}
   local complex, of_complex = {}, {}
   local seen = {}
   local kept = all.inference and {
      pointwise = named(all.sources, ""), reduction = named(all.sources, "reduction_"),
      scan = named(all.sources, "scan_"),
   }
   for _, op in ipairs(all.ops) do
      for kind, rows in pairs(lists) do
         local entry = op[kind]
         local name = entry and (entry.kernel or op.cname)
         if entry and kept and not op.left_out then kept[kind][name] = true end
         if kind == "pointwise" and entry and op.complex and not of_complex[name] then
            of_complex[name] = true
            local result = entry.real and "REAL" or (entry.out or "same"):upper()
            complex[#complex + 1] = ("%s, %d, %s"):format(name, inputs_of(op), result)
         end
         if entry and not seen[kind .. name] then
            seen[kind .. name] = true
            if kind == "pointwise" then
               rows[#rows + 1] = ("%s, %d, %s, %s"):format(name, inputs_of(op),
                  entry.rare and "RARE" or entry.types:upper(), (entry.out or "same"):upper())
            else
               rows[#rows + 1] = ("%s, %s"):format(name, (entry.types or "number"):upper())
            end
         end
      end
   end
   if kept then
      for kind, rows in pairs(lists) do leave_out(rows, kept[kind]) end
   end
   local out = {
      "/* Generated from src/ops; not to be edited. */",
      "#ifndef TLK_KERNELS_H\n#define TLK_KERNELS_H\n",
      kept and no_types,
   }
   for _, kind in ipairs {"pointwise", "reduction", "scan"} do
      local macro = "TLK_" .. kind:upper() .. "S"
      out[#out + 1] = titles[kind]
      out[#out + 1] = kernel_list(macro, lists[kind])
      local enum = cdecl.map(lists[kind], function(row)
         local name = row:match("^[%w_]+")
         return ("  TLK_%s%s,"):format(kind == "pointwise" and "" or kind .. "_", name)
      end)
      out[#out + 1] = fill([[
typedef enum tlk_$kind {
$enum
  TLK_N$list
} tlk_$kind;
]], {kind = kind:gsub("^%l", string.upper), enum = enum, list = macro:sub(5)})
   end
   out[#out + 1] = titles.complex
   out[#out + 1] = kernel_list("TLK_COMPLEX_POINTWISES", complex)
   local text = table.concat(out, "\n")
   local header = fill([[
$text
/* Changes with these lists and with the headers that plugins share with us. */
#define TLK_HASH 0x${hash}ull

#endif
]], {text = text, hash = ("%016x"):format(M.hash(text .. shared))})
   return {
      ["kernels.h"] = header,
      ["each_pointwise.h"] = templates("pointwise", {"NAME", "INPUTS", "types", "RESULT"},
         lists.pointwise),
      ["each_reduction.h"] = templates("reduction", {"NAME", "types"}, lists.reduction),
      ["each_scan.h"] = templates("scan", {"NAME", "types"}, lists.scan),
   }
end

return M
