-- families.lua - sorts declarations into sections, which become chapters of the manual and pages of
-- the site. Each module has a section; the functions of torch and the methods of tensors have one
-- section for each family of operators.

local M = {}

local titles = {
   attention = "Attention", conv = "Convolution", copy = "Copies and conversions",
   creation = "New tensors", index = "Indexing", linalg = "Linear algebra", loss = "Losses",
   matmul = "Products of matrices", norm = "Normalisation", optim = "Steps of optimizers",
   pointwise = "Elementwise functions", pool = "Pooling", random = "Random numbers",
   reduce = "Reductions", rnn = "Recurrent layers", scan = "Cumulative functions",
   shape = "Shapes and views", sort = "Sorting", vision = "Images",
}

-- Returns the key and the title of the section to which a declaration belongs.
local function section_of(declared)
   local path = declared.path
   local owner = path:match "^(.*)%.[^.]+$" or "torch"
   if declared.kind == "module" then owner = path end
   if declared.is_value and not owner:find "^torch" then owner = "torch." .. owner end
   -- a constant in a table with a capitalised name belongs to the section of the module around it
   if declared.kind == "constant" and owner:find "%.%u[%w_]+$" then
      owner = owner:match "^(.*)%.[^.]+$"
   end
   if owner == "torch.Tensor" or owner == "torch" and declared.kind == "function" then
      local folder = declared.file and declared.file:match "^src/ops/([^/]+)/"
      if folder then
         local title = titles[folder] or folder
         return "torch." .. folder, "torch: " .. title
      end
   end
   return owner, owner == "torch" and "torch: the library" or owner == "torch.Tensor"
      and "Methods of tensors" or (owner:gsub("^torch%.", ""))
end

--- Returns all sections in order, each with its declarations.
---@param all table[]
---@return {key: string, title: string, module: table?, entries: table[]}[]
function M.sections(all)
   local list, by_key = {}, {}
   for _, declared in ipairs(all) do
      if not declared.missing or declared.methods then
         local key, title = section_of(declared)
         local section = by_key[key]
         if not section then
            section = {key = key, title = title, entries = {}}
            list[#list + 1], by_key[key] = section, section
         end
         if declared.kind == "module" then
            section.module = declared
         else
            table.insert(section.entries, declared)
         end
      end
   end
   for i = #list, 1, -1 do
      if #list[i].entries == 0 then table.remove(list, i) end
   end
   local function place(title) -- the sections of operators come before the sections of modules
      return (title == "Methods of tensors" or title:find "^torch: ") and "" or "~"
   end
   table.sort(list, function(a, b)
      local x, y = place(a.title), place(b.title)
      if x ~= y then return x < y end
      return a.title < b.title
   end)
   return list
end

return M
