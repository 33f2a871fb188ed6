"use strict";
// The page is complete without this script. It adds sorting, a filter, and opens folds for printing.
(function () {
  function key(cell) {
    var number = cell.getAttribute("data-sort");
    return number === null ? null : Number(number);
  }
  function compare(a, b, column) {
    var x = a.cells[column], y = b.cells[column], p = key(x), q = key(y);
    if (p !== null && q !== null) return p - q;
    if (p !== null || q !== null) return p === null ? -1 : 1;
    return x.textContent.localeCompare(y.textContent);
  }
  function sort(table, head, column) {
    var down = head.getAttribute("aria-sort") !== "descending";
    var body = table.tBodies[0];
    var rows = Array.prototype.slice.call(body.rows);
    var sums = rows.filter(function (row) { return row.classList.contains("sum"); });
    rows = rows.filter(function (row) { return !row.classList.contains("sum"); });
    rows.sort(function (a, b) { return (down ? -1 : 1) * compare(a, b, column); });
    rows.concat(sums).forEach(function (row) { body.appendChild(row); });
    table.querySelectorAll("thead th").forEach(function (other) { other.removeAttribute("aria-sort"); });
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
  }
  document.querySelectorAll("table.sortable").forEach(function (table) {
    table.querySelectorAll("thead th").forEach(function (head, column) {
      var word = head.querySelector(".word");
      var button = document.createElement("button");
      button.type = "button";
      button.textContent = word.textContent;
      word.textContent = "";
      word.appendChild(button);
      button.addEventListener("click", function () { sort(table, head, column); });
    });
  });
  document.querySelectorAll("table.long").forEach(function (table) {
    var label = document.createElement("label");
    var input = document.createElement("input");
    label.className = "filter";
    label.textContent = "Show only rows with ";
    input.type = "search";
    label.appendChild(input);
    table.parentNode.parentNode.insertBefore(label, table.parentNode);
    input.addEventListener("input", function () {
      var wanted = input.value.toLowerCase();
      Array.prototype.forEach.call(table.tBodies[0].rows, function (row) {
        row.hidden = row.textContent.toLowerCase().indexOf(wanted) < 0;
      });
    });
  });
  var opened = [];
  window.addEventListener("beforeprint", function () {
    opened = Array.prototype.slice.call(document.querySelectorAll("details:not([open])"));
    opened.forEach(function (fold) { fold.open = true; });
  });
  window.addEventListener("afterprint", function () {
    opened.forEach(function (fold) { fold.open = false; });
  });
})();
