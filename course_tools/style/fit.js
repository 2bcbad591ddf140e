function fit(element) {  // a formula that is too wide becomes smaller
  for (const formula of element.querySelectorAll('math[display="block"]')) {
    const ratio = formula.clientWidth / formula.scrollWidth;
    if (ratio < 1) formula.style.fontSize = `${0.98 * ratio}em`;
  }
}
