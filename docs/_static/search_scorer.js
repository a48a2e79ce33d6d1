// Notes come after the guide, the gallery and the reference.
const NOTES = [
  "bellman", "counting", "dask", "design", "gallery", "maps", "measurements", "newer", "paper", "portfolio", "sne", "solvers", "streams",
];

var Scorer = {
  score: ([docName, , , , score]) => (NOTES.includes(docName) || docName === "changelog" ? score - 1000 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
